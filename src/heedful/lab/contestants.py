"""Models that translate a test set in order to be compared, with each other and with files of translations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Unpack

from heedful.api.evaluation import evaluate
from heedful.api.model import Model, load
from heedful.api.request import Options
from heedful.config.schema import AnyCorpus, Data, Recipe
from heedful.data.readers import corpus_name, read_pairs
from heedful.data.text import TextForm
from heedful.errors import HeedfulError, UserError, suggestion
from heedful.evaluate.buckets import count_words
from heedful.evaluate.sums import words_cutter
from heedful.lab.compare import Contest, Frequencies, Sentences, System, check_lines
from heedful.models.bundle import read_description

Split = Literal["valid", "test"]
Bar = Callable[[int], AbstractContextManager[Callable[[int], None]]]  # shows how many of so many sentences are ready


@dataclass(frozen=True)
class Messages:
    """Where news of the work goes."""

    say: Callable[[str], None]
    bar: Bar


def contest(
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
    **options: Unpack[Options],
) -> Contest:
    """Let the models translate, one after the other: what is given, or the corpus that their recipes have in common.

    All are scored against the references in one form, the models' own; texts of files are brought into their case and
    Unicode form too. The words of the training data are counted where a model's recipe finds its files.
    """
    recipes = {name: read_description(Path(name))[0] for name in models}
    sentences = given or _common_sentences(recipes, split, corpus)
    check_lines(files, sentences.references)
    tokenize = bleu_tokenize or _common_tokenizer(recipes)
    form = TextForm.of(recipes[models[0]].data)
    systems = {file.name: System(file.name, tuple(map(form, file.translations))) for file in files}
    references: tuple[str, ...] = ()
    frequencies: Frequencies | None = None
    unread: list[Data] = []  # runs of one recipe have the same data: one complaint is enough
    for name in models:
        model = load(name, device, precision)
        translations, expected = _translated(model, name, sentences, messages, options)
        references = references or expected
        _refuse_other_form(references, expected, models[0], name)
        systems[name] = System(name, translations)
        if frequencies is None and recipes[name].data not in unread:
            frequencies = _frequencies(model, name, sentences.to, tokenize, messages)
            unread.append(recipes[name].data)
    lowercase = any(recipe.data.lowercase for recipe in recipes.values())
    return Contest(systems, replace(sentences, references=references), tokenize, lowercase, frequencies)


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


# --- translations -------------------------------------------------------------------------------------------------


def _translated(
    model: Model, name: str, sentences: Sentences, messages: Messages, options: Options
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The translations, and the references in the form that the model is scored in."""
    messages.say(f"{name}: translating {len(sentences.references):,} sentences")
    asked: Options = {**options, "to": sentences.to or None}
    with messages.bar(len(sentences.references)) as progress:
        found = evaluate(
            model, sentences.sources or (), sentences.references, name=sentences.name, progress=progress, **asked
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


def _frequencies(model: Model, name: str, to: str, bleu_tokenize: str, messages: Messages) -> Frequencies | None:
    """How often each word is in the target side of the model's training data; None where that cannot be read."""
    cut = words_cutter(bleu_tokenize)
    messages.say(f"{name}: counting the words of its training data")
    try:
        return Frequencies(f"the training data of {name}", count_words(map(cut, _training_texts(model, to))))
    except HeedfulError as error:
        messages.say(f"{name}: its training data cannot be read ({str(error).rstrip('.')})")
        return None


def _training_texts(model: Model, to: str) -> Iterator[str]:
    """The targets in the form of the translations; of a model of several languages, those in the one that is judged."""
    recipe = model.recipe
    for corpus in recipe.data.train:
        if to and corpus.to != to:
            continue
        for _, target in read_pairs(corpus, recipe.data.folder, TextForm.of(recipe.data)):
            yield model.wording.ordinary(target, corpus.to or None) if recipe.evaluate.detokenize else target
