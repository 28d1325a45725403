"""Translates a test set with several models, so that they can be compared with each other and with existing files."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final, Literal, Unpack

from heedful.base.errors import HeedfulError, UserError, by_caller, suggestion
from heedful.config.corpora.any import AnyCorpus
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.data.corpora.pairs import read_pairs, read_references
from heedful.data.text_form import TextForm
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.lab.compare import ComparisonInput, Frequencies, Sentences, System, check_lines
from heedful.metrics.edits import Reference, first_variant
from heedful.metrics.summed_metrics import word_splitter
from heedful.models.bundle import read_description
from heedful.tasks.shared.sequences.search_options import SearchOptions
from heedful.tasks.shared.sequences.text_codec import TextCodec
from heedful.tasks.translate.evaluation import evaluate
from heedful.tasks.translate.model import Translator, load

_MOST: Final = 1_000_000  # words are counted in this many lines of training data
_TELL_EVERY: Final = 250_000  # lines between two progress messages

Part = Literal["valid", "test"]
Bar = Callable[[int], AbstractContextManager[Callable[[int], None]]]  # a progress bar for this many sentences
SplitWords = Callable[[str], list[str]]  # a text into the words that BLEU counts
Description = tuple[Recipe, Vocabularies]


@dataclass(frozen=True)
class Messages:
    """Where progress is reported."""

    say: Callable[[str], None]
    bar: Bar


def translate_test_set(
    models: Sequence[str],
    files: Sequence[System],
    given: Sentences | None,
    messages: Messages,
    *,
    split: Part = "test",
    corpus: str | None = None,
    bleu_tokenize: str | None = None,
    device: str = "auto",
    precision: str = "auto",
    **options: Unpack[SearchOptions],
) -> ComparisonInput:
    """Translate the given sentences, or the test set that the recipes share, with one model after the other.

    All systems are scored against references in the models' own form; translations from files are brought into the
    same case and Unicode form. Only multilingual models are given the target language. Words are counted in the
    training data if the files in a model's recipe can be read.
    """
    described = {name: read_description(Path(name)) for name in models}
    recipes = {name: recipe for name, (recipe, _) in described.items()}
    _refuse_other_tasks(recipes)
    sentences = given or _common_sentences(recipes, split, corpus)
    check_lines(files, sentences.references)
    languages = {
        name: sentences.to if vocabularies["source"].tags else "" for name, (_, vocabularies) in described.items()
    }
    _check_languages(described, sentences, given)
    tokenize = bleu_tokenize or _common_tokenizer(recipes)
    split_words = word_splitter(tokenize)
    form = TextForm.of(recipes[models[0]].data)
    systems = {file.name: System(file.name, tuple(map(form, file.translations))) for file in files}
    references: tuple[Reference, ...] = ()
    for name in models:
        model = load(name, device, precision)
        asked: SearchOptions = {**options, "to": languages[name] or None}
        translations, expected = _translate(model, name, sentences, messages, asked)
        references = references or expected
        _refuse_other_form(references, expected, models[0], name)
        systems[name] = System(name, translations)
    texts = chain(map(first_variant, references), *(system.translations for system in systems.values()))
    frequencies = _first_frequencies(described, languages, split_words, texts, messages)
    lowercase, one_word = (
        any(asked)
        for asked in zip(*((one.data.lowercase, one.evaluate.one_word) for one in recipes.values()), strict=True)
    )
    return ComparisonInput(
        systems, replace(sentences, references=references), tokenize, lowercase, frequencies, one_word
    )


def _refuse_other_tasks(recipes: Mapping[str, Recipe]) -> None:
    translator = next((name for name, recipe in recipes.items() if recipe.rules.scored == "pairs"), None)
    for name, recipe in recipes.items():
        if recipe.rules.scored == "pairs":
            continue
        if translator is None:
            raise UserError(
                f"{name} is a model that {recipe.rules.does}, and such models cannot be compared item by item: use "
                "`heedful evaluate`."
            )
        raise UserError(
            f"{name} is a model that {recipe.rules.does}, but {translator} is one that translates: compare models of "
            "one task."
        )


# --- the test set -------------------------------------------------------------------------------------------------


def _common_sentences(recipes: Mapping[str, Recipe], split: Part, corpus: str | None) -> Sentences:
    """Return the test set that all recipes share: the first corpus, or the one of this name."""
    (first, common), *others = [
        (model, _sentences(_corpus(recipe, split, corpus, model), recipe)) for model, recipe in recipes.items()
    ]
    for model, here in others:
        why = _difference(common, here)
        if why:
            raise UserError(
                f"{first} and {model} have different test sets ({common.name} and {here.name}: {why}): choose one for "
                f"both with {by_caller('--source and --target', '`sources` and `references`')}."
            )
    return common


def _common_tokenizer(recipes: Mapping[str, Recipe]) -> str:
    """Return the BLEU tokenizer that all recipes share."""
    (first, common), *others = [(model, recipe.evaluate.bleu_tokenize) for model, recipe in recipes.items()]
    for model, here in others:
        if here != common:
            raise UserError(
                f"{first} is scored with BLEU's tokenizer `{common}` but {model} with `{here}`: choose one for both "
                f"with {by_caller('--bleu-tokenize', '`bleu_tokenize`')}."
            )
    return common


def _corpus(recipe: Recipe, split: Part, wanted: str | None, model: str) -> AnyCorpus:
    corpora: tuple[AnyCorpus, ...] = getattr(recipe.data, split)
    if not corpora:
        raise UserError(
            f"{model}: its recipe has no `data.{split}`: give "
            f"{by_caller('--source and --target', '`sources` and `references`')}."
        )
    known = {corpus.name or str(number): corpus for number, corpus in enumerate(corpora, start=1)}
    if wanted is None:
        return corpora[0]
    if wanted not in known:
        raise UserError(
            f"{model}: its recipe has no corpus `{wanted}` in `data.{split}`.{suggestion(wanted, list(known))}"
        )
    return known[wanted]


def _sentences(corpus: AnyCorpus, recipe: Recipe) -> Sentences:
    rows = list(read_references(corpus, recipe.data.folder))
    sources, references = tuple(source for source, _ in rows), tuple(reference for _, reference in rows)
    return Sentences(corpus.title, sources, references, corpus.to)


def _difference(one: Sentences, other: Sentences) -> str:
    """Describe the first difference between two test sets; empty if they are equal."""
    if len(one.references) != len(other.references):
        return f"{len(one.references):,} and {len(other.references):,} pairs"
    if one.to != other.to:
        return f"`to` is `{one.to}` and `{other.to}`"
    pairs = [list(zip(each.sources or (), each.references, strict=True)) for each in (one, other)]
    unequal = _first_unequal(*pairs)
    return f"pair {unequal:,} differs" if unequal else ""


def _first_unequal(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the number of the first differing line, counted from 1; 0 if all are equal."""
    return next((line for line, (x, y) in enumerate(zip(one, other, strict=True), start=1) if x != y), 0)


def _check_languages(described: Mapping[str, Description], sentences: Sentences, given: Sentences | None) -> None:
    """Refuse sentences without the target language that a multilingual model needs, before translating."""
    several = {name: description for name, description in described.items() if description[1]["source"].tags}
    if given and given.to and not several:
        to = by_caller("--to", "`to`")
        raise UserError(f"{to} is `{given.to}`, but none of the models has several target languages: leave out {to}.")
    for name, (recipe, vocabularies) in several.items():
        try:
            TextCodec(recipe, vocabularies).encode(
                sentences.sources or (), sentences.to or None, False, sentences.name, 1
            )
        except UserError as error:
            raise UserError(f"{name}: {error}") from error


# --- translations -------------------------------------------------------------------------------------------------


def _translate(
    model: Translator, name: str, sentences: Sentences, messages: Messages, options: SearchOptions
) -> tuple[tuple[str, ...], tuple[Reference, ...]]:
    """Return the translations, and the references in the form in which the model is scored."""
    messages.say(f"{name}: translating {len(sentences.references):,} sentences")
    with messages.bar(len(sentences.references)) as progress:
        found = evaluate(
            model, sentences.sources or (), sentences.references, name=sentences.name, progress=progress, **options
        )
    if found.cut:
        limit = by_caller("--max-extra", "`max_extra`")
        messages.say(f"{name}: {found.cut:,} translations were cut at the maximum length: raise {limit}")
    return found.translations, found.references


def _refuse_other_form(common: Sequence[Reference], here: Sequence[Reference], first: str, name: str) -> None:
    unequal = _first_unequal(common, here)
    if unequal:
        raise UserError(
            f"{first} and {name} are scored against different references (first at line {unequal:,}), because "
            "`data.lowercase`, `data.nfc` or `evaluate.detokenize` of their recipes differ: write their translations "
            f"to files in the same form, and compare those{by_caller(' with --target', '')}."
        )


# --- training data ------------------------------------------------------------------------------------------------


def _first_frequencies(
    described: Mapping[str, Description],
    languages: Mapping[str, str],
    split_words: SplitWords,
    scored: Iterable[str],
    messages: Messages,
) -> Frequencies | None:
    """Count the words of the scored texts in the first model's training data that can be read."""
    words = frozenset(word for text in scored for word in split_words(text))
    unread: list[Data] = []  # runs of one recipe share its data: report it once
    for name, (recipe, vocabularies) in described.items():
        if recipe.data in unread:
            continue
        with closing(_training_texts(recipe, TextCodec(recipe, vocabularies), languages[name])) as texts:
            found = _frequencies(name, texts, split_words, words, messages)
        if found:
            return found
        unread.append(recipe.data)
    return None


def _frequencies(
    name: str, texts: Iterator[str], split_words: SplitWords, words: AbstractSet[str], messages: Messages
) -> Frequencies | None:
    """Count the words in a model's training texts; None if these cannot be read."""
    messages.say(f"{name}: counting words in its training data")
    counts: Counter[str] = Counter()
    part = ""
    try:
        for number, text in enumerate(texts):
            if number == _MOST:
                part = f"the first {_MOST:,} lines of "
                break
            if number and number % _TELL_EVERY == 0:
                messages.say(f"{name}: counting words in its training data: {number:,} lines so far")
            counts.update(word for word in split_words(text) if word in words)
    except HeedfulError as error:
        messages.say(f"{name}: its training data cannot be read ({str(error).rstrip('.')})")
        return None
    return Frequencies(f"{part}the training data of {name}", counts)


def _training_texts(recipe: Recipe, codec: TextCodec, to: str) -> Generator[str, None, None]:
    """Yield the training targets in the form of the translations; with `to`, only those in this language."""
    for corpus in recipe.data.train:
        if to and corpus.to != to:
            continue
        for _, target in read_pairs(corpus, recipe.data.folder, TextForm.of(recipe.data)):
            yield codec.ordinary(target, corpus.to or None) if recipe.evaluate.detokenize else target
