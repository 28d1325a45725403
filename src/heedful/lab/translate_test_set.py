"""Models that translate a test set in order to be compared, with each other and with files of translations."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final, Literal, Unpack

from heedful.config.corpora import AnyCorpus
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.data.corpora.files import corpus_name
from heedful.data.corpora.pairs import read_pairs
from heedful.data.text_form import TextForm
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.errors import HeedfulError, UserError, suggestion
from heedful.lab.compare import ComparisonInput, Frequencies, Sentences, System, check_lines
from heedful.metrics.summed_metrics import word_splitter
from heedful.models.bundle import read_description
from heedful.tasks.translate.evaluation import evaluate
from heedful.tasks.translate.model import Translator, load
from heedful.tasks.translate.options import SearchOptions
from heedful.tasks.translate.text_codec import TextCodec

_MOST: Final = 1_000_000  # lines of training data in which words are counted
_TELL_EVERY: Final = 250_000  # of them

Split = Literal["valid", "test"]
Bar = Callable[[int], AbstractContextManager[Callable[[int], None]]]  # shows how many of so many sentences are ready
Cut = Callable[[str], list[str]]  # a text to the words that BLEU counts
Described = tuple[Recipe, Vocabularies]


@dataclass(frozen=True)
class Messages:
    """Where news of the work goes."""

    say: Callable[[str], None]
    bar: Bar


def translate_test_set(
    models: Sequence[str],
    files: Sequence[System],
    given: Sentences | None,
    messages: Messages,
    *,
    split: Split = "test",
    corpus: str | None = None,
    bleu_tokenize: str | None = None,
    device: str = "auto",
    precision: str = "auto",
    **options: Unpack[SearchOptions],
) -> ComparisonInput:
    """Let the models translate, one after the other: what is given, or the corpus that their recipes have in common.

    All are scored against the references in one form, the models' own; texts of files are brought into their case and
    Unicode form too. A target language is asked of the models that know several. The words of the training data are
    counted where a model's recipe finds its files.
    """
    described = {name: read_description(Path(name)) for name in models}
    recipes = {name: recipe for name, (recipe, _) in described.items()}
    for name, recipe in recipes.items():
        if recipe.task != "translate":
            raise UserError(f"{name} does not translate, but translations are compared: use `heedful evaluate`.")
    sentences = given or _common_sentences(recipes, split, corpus)
    check_lines(files, sentences.references)
    languages = {
        name: sentences.to if vocabularies["source"].tags else "" for name, (_, vocabularies) in described.items()
    }
    _check_languages(described, sentences, given)
    tokenize = bleu_tokenize or _common_tokenizer(recipes)
    cut = word_splitter(tokenize)
    form = TextForm.of(recipes[models[0]].data)
    systems = {file.name: System(file.name, tuple(map(form, file.translations))) for file in files}
    references: tuple[str, ...] = ()
    for name in models:
        model = load(name, device, precision)
        asked: SearchOptions = {**options, "to": languages[name] or None}
        translations, expected = _translated(model, name, sentences, messages, asked)
        references = references or expected
        _refuse_other_form(references, expected, models[0], name)
        systems[name] = System(name, translations)
    judged = chain(references, *(system.translations for system in systems.values()))
    frequencies = _first_frequencies(described, languages, cut, judged, messages)
    lowercase = any(recipe.data.lowercase for recipe in recipes.values())
    return ComparisonInput(systems, replace(sentences, references=references), tokenize, lowercase, frequencies)


# --- the test set -------------------------------------------------------------------------------------------------


def _common_sentences(recipes: Mapping[str, Recipe], split: Split, corpus: str | None) -> Sentences:
    """The test set of all recipes: the first corpus, or the one of this name; they must have the same pairs."""
    (first, common), *others = [
        (model, _sentences(_corpus(recipe, split, corpus, model), recipe)) for model, recipe in recipes.items()
    ]
    for model, here in others:
        why = _difference(common, here)
        if why:
            raise UserError(
                f"{first} and {model} have different test sets ({common.name} and {here.name}: {why}): choose one for "
                "both with --source and --target."
            )
    return common


def _common_tokenizer(recipes: Mapping[str, Recipe]) -> str:
    """BLEU's tokenizer of all recipes."""
    (first, common), *others = [(model, recipe.evaluate.bleu_tokenize) for model, recipe in recipes.items()]
    for model, here in others:
        if here != common:
            raise UserError(
                f"{first} is scored with BLEU's tokenizer `{common}` but {model} with `{here}`: choose one for both "
                "with --bleu-tokenize."
            )
    return common


def _corpus(recipe: Recipe, split: Split, wanted: str | None, model: str) -> AnyCorpus:
    corpora: tuple[AnyCorpus, ...] = getattr(recipe.data, split)
    if not corpora:
        raise UserError(f"{model}: its recipe has no `data.{split}`: give --source and --target.")
    known = {corpus.name or str(number): corpus for number, corpus in enumerate(corpora, start=1)}
    if wanted is None:
        return corpora[0]
    if wanted not in known:
        raise UserError(
            f"{model}: its recipe has no corpus `{wanted}` in `data.{split}`.{suggestion(wanted, list(known))}"
        )
    return known[wanted]


def _sentences(corpus: AnyCorpus, recipe: Recipe) -> Sentences:
    pairs = list(read_pairs(corpus, recipe.data.folder))
    sources, references = (tuple(pair[side] for pair in pairs) for side in (0, 1))
    return Sentences(corpus_name(corpus), sources, references, corpus.to)


def _difference(one: Sentences, other: Sentences) -> str:
    """What is not the same in two test sets; nothing where all is."""
    if len(one.references) != len(other.references):
        return f"{len(one.references):,} and {len(other.references):,} pairs"
    if one.to != other.to:
        return f"`to` is `{one.to}` and `{other.to}`"
    pairs = [list(zip(each.sources or (), each.references, strict=True)) for each in (one, other)]
    unequal = _first_unequal(*pairs)
    return f"pair {unequal:,} is another" if unequal else ""


def _first_unequal(one: Sequence[object], other: Sequence[object]) -> int:
    """The number of the first line that is not the same, counted from 1; 0 where all are."""
    return next((line for line, (x, y) in enumerate(zip(one, other, strict=True), start=1) if x != y), 0)


def _check_languages(described: Mapping[str, Described], sentences: Sentences, given: Sentences | None) -> None:
    """Refuse sentences that do not tell a model its target language, before anything is translated."""
    several = {name: of_name for name, of_name in described.items() if of_name[1]["source"].tags}
    if given and given.to and not several:
        raise UserError(f"--to is `{given.to}`, but no model here knows several target languages: leave out --to.")
    for name, (recipe, vocabularies) in several.items():
        try:
            TextCodec(recipe, vocabularies).encode(
                sentences.sources or (), sentences.to or None, False, sentences.name, 1
            )
        except UserError as error:
            raise UserError(f"{name}: {error}") from error


# --- translations -------------------------------------------------------------------------------------------------


def _translated(
    model: Translator, name: str, sentences: Sentences, messages: Messages, options: SearchOptions
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The translations, and the references in the form that the model is scored in."""
    messages.say(f"{name}: translating {len(sentences.references):,} sentences")
    with messages.bar(len(sentences.references)) as progress:
        found = evaluate(
            model, sentences.sources or (), sentences.references, name=sentences.name, progress=progress, **options
        )
    if found.cut:
        messages.say(f"{name}: {found.cut:,} translations were cut at the maximum length: raise --max-extra")
    return found.translations, found.references


def _refuse_other_form(common: Sequence[str], here: Sequence[str], first: str, name: str) -> None:
    unequal = _first_unequal(common, here)
    if unequal:
        raise UserError(
            f"{first} and {name} are scored against different texts (line {unequal:,} is the first), as their recipes' "
            "`data.lowercase`, `data.nfc` or `evaluate.detokenize` differ: write their translations into files in one "
            "form, and compare these with --target."
        )


# --- training data ------------------------------------------------------------------------------------------------


def _first_frequencies(
    described: Mapping[str, Described],
    languages: Mapping[str, str],
    cut: Cut,
    judged: Iterable[str],
    messages: Messages,
) -> Frequencies | None:
    """How often each word of the texts that are judged is in the training data of the first model that has it."""
    words = frozenset(word for text in judged for word in cut(text))
    unread: list[Data] = []  # runs of one recipe have the same data: one complaint is enough
    for name, (recipe, vocabularies) in described.items():
        if recipe.data in unread:
            continue
        with closing(_training_texts(recipe, TextCodec(recipe, vocabularies), languages[name])) as texts:
            found = _frequencies(name, texts, cut, words, messages)
        if found:
            return found
        unread.append(recipe.data)
    return None


def _frequencies(
    name: str, texts: Iterator[str], cut: Cut, words: AbstractSet[str], messages: Messages
) -> Frequencies | None:
    """How often the words are in a model's training texts; None where these cannot be read."""
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
            counts.update(word for word in cut(text) if word in words)
    except HeedfulError as error:
        messages.say(f"{name}: its training data cannot be read ({str(error).rstrip('.')})")
        return None
    return Frequencies(f"{part}the training data of {name}", counts)


def _training_texts(recipe: Recipe, wording: TextCodec, to: str) -> Generator[str, None, None]:
    """The targets in the form of the translations; of a model of several languages, those in the one that is judged."""
    for corpus in recipe.data.train:
        if to and corpus.to != to:
            continue
        for _, target in read_pairs(corpus, recipe.data.folder, TextForm.of(recipe.data)):
            yield wording.ordinary(target, corpus.to or None) if recipe.evaluate.detokenize else target
