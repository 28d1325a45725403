"""Counts the words of a test set in the data that a translator was trained on: rare words are hard to translate."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from typing import Final

from heedful.base.errors import HeedfulError
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.data.corpora.pairs import read_pairs
from heedful.data.text_form import TextForm
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.lab.compare import Frequencies
from heedful.tasks.shared.sequences.text_codec import TextCodec

_MOST: Final = 1_000_000  # words are counted in this many lines of training data
_TELL_EVERY: Final = 250_000  # lines between two progress messages


def count_training_words(
    described: Mapping[str, tuple[Recipe, Vocabularies]],
    languages: Mapping[str, str],
    split_words: Callable[[str], list[str]],
    scored: Iterable[str],
    say: Callable[[str], None],
) -> Frequencies | None:
    """Count the words of the scored texts in the first model's training data that can be read; None if none can."""
    words = frozenset(word for text in scored for word in split_words(text))
    unread: list[Data] = []  # runs of one recipe share its data: report it once
    for name, (recipe, vocabularies) in described.items():
        if recipe.data in unread:
            continue
        counting = f"{name}: counting words in its training data"
        say(counting)
        counts: Counter[str] = Counter()
        part = ""
        try:
            with closing(training_texts(recipe, TextCodec(recipe, vocabularies), languages[name])) as texts:
                for number, text in enumerate(texts):
                    if number == _MOST:
                        part = f"the first {_MOST:,} lines of "
                        break
                    if number and number % _TELL_EVERY == 0:
                        say(f"{counting}: {number:,} lines so far")
                    counts.update(word for word in split_words(text) if word in words)
            return Frequencies(f"{part}the training data of {name}", counts)
        except HeedfulError as error:
            say(f"{name}: its training data cannot be read ({str(error).rstrip('.')})")
            unread.append(recipe.data)
    return None


def training_texts(recipe: Recipe, codec: TextCodec, to: str) -> Generator[str, None, None]:
    """Yield the training targets in the form of the translations; with `to`, only those in this language."""
    for corpus in recipe.data.train:
        if to and corpus.to != to:
            continue
        for _, target in read_pairs(corpus, recipe.data.folder, TextForm.of(recipe.data)):
            yield codec.ordinary(target, corpus.to or None) if recipe.evaluate.detokenize else target
