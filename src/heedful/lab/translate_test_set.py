"""Translates a test set with several models, so that they can be compared with each other and with existing files."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from heedful.base.arguments import check_one_each
from heedful.base.errors import UserError, by_caller, option
from heedful.data.corpora.pairs import read_references
from heedful.data.text_form import TextForm
from heedful.lab.compare import System, check_lines
from heedful.lab.comparison_request import ComparisonRequest, Sentences, Translated, names_of_sentences
from heedful.lab.test_sets import Described, recipe_corpus
from heedful.lab.training_words import count_training_words
from heedful.metrics.edits import Reference, first_variant
from heedful.metrics.summed_metrics import TextScoring, word_splitter
from heedful.tasks.shared.sequences.text_codec import TextCodec
from heedful.tasks.translate.model import Translator


def translate_test_set(request: ComparisonRequest, described: Described) -> Translated:
    """Translate the given sentences, or the test set that the recipes share, with one model after the other.

    All systems are scored against references in the models' own form; translations from files are brought into the
    same case and Unicode form. Only multilingual models are given the target language. Words are counted in the
    training data if the files in a model's recipe can be read.
    """
    request.check_sources()
    request.text_metrics()  # before anything is read
    recipes = {model: recipe for model, (recipe, _) in described.items()}
    sentences = request.given.read() if request.given else _common_sentences(request, described)
    check_lines(request.systems, sentences.references)
    several = [model for model, (_, vocabularies) in described.items() if vocabularies["source"].tags]
    languages = {model: sentences.to if model in several else "" for model in described}
    _check_languages(request, described, sentences, several)
    first, *_ = described
    tokenize = request.bleu_tokenize or recipes[first].evaluate.bleu_tokenize
    for model, recipe in recipes.items():
        if request.bleu_tokenize is None and recipe.evaluate.bleu_tokenize != tokenize:
            raise UserError(
                f"{first} is scored with BLEU's tokenizer `{tokenize}` but {model} with "
                f"`{recipe.evaluate.bleu_tokenize}`: choose one for both with {option('bleu_tokenize')}."
            )
    form = TextForm.of(recipes[first].data)
    systems = {file.name: System(file.name, tuple(map(form, file.translations))) for file in request.systems}
    references: tuple[Reference, ...] = ()
    for model in described:
        translations, expected = _translate(request, model, sentences, languages[model])
        references = references or expected
        unequal = _first_unequal(references, expected)
        if unequal:
            raise UserError(
                f"{first} and {model} are scored against different references (first at line {unequal:,}), because "
                "`data.lowercase`, `data.nfc` or `evaluate.detokenize` of their recipes differ: write their "
                f"translations to files in the same form, and compare those{by_caller(' with --target', '')}."
            )
        systems[model] = System(model, translations)
    texts = chain(map(first_variant, references), *(system.translations for system in systems.values()))
    return Translated(
        systems,
        replace(sentences, references=references),
        TextScoring(
            tokenize,
            any(recipe.data.lowercase for recipe in recipes.values()),
            any(recipe.evaluate.one_word for recipe in recipes.values()),
        ),
        count_training_words(described, languages, word_splitter(tokenize), texts, request.say),
    )


def _common_sentences(request: ComparisonRequest, described: Described) -> Sentences:
    """Return the test set that all recipes share: the first corpus, or the one of this name."""
    read: dict[str, Sentences] = {}
    for model, (recipe, _) in described.items():
        corpus = recipe_corpus(model, recipe, request.split, request.corpus)
        sources, references = zip(*read_references(corpus, recipe.data.folder), strict=True)
        read[model] = Sentences(corpus.title, sources, references, corpus.to)
    (first, common), *others = read.items()
    for model, here in others:
        why = _difference(common, here)
        if why:
            raise UserError(
                f"{first} and {model} have different test sets ({common.name} and {here.name}: {why}): choose one for "
                f"both with {' and '.join(names_of_sentences())}."
            )
    return common


def _difference(one: Sentences, other: Sentences) -> str:
    """Describe the first difference between two test sets; empty if they are equal."""
    if len(one.references) != len(other.references):
        return f"{len(one.references):,} and {len(other.references):,} pairs"
    if one.to != other.to:
        return f"`to` is `{one.to}` and `{other.to}`"
    unequal = _first_unequal(*(list(zip(each.sources or (), each.references, strict=True)) for each in (one, other)))
    return f"pair {unequal:,} differs" if unequal else ""


def _first_unequal(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the number of the first differing line, counted from 1; 0 if all are equal."""
    return next((line for line, (x, y) in enumerate(zip(one, other, strict=True), start=1) if x != y), 0)


def _check_languages(
    request: ComparisonRequest, described: Described, sentences: Sentences, several: Sequence[str]
) -> None:
    """Refuse sentences without the target language that a multilingual model needs, before translating."""
    if request.given and request.given.to and not several:
        to = option("to")
        raise UserError(
            f"{to} is `{request.given.to}`, but none of the models has several target languages: leave out {to}."
        )
    for model in several:
        try:
            TextCodec(*described[model]).encode(sentences.sources or (), sentences.to or None, False, sentences.name, 1)
        except UserError as error:
            raise UserError(f"{model}: {error}") from error


def _translate(
    request: ComparisonRequest, name: str, sentences: Sentences, to: str
) -> tuple[tuple[str, ...], tuple[Reference, ...]]:
    """Return the translations, and the references in the form in which the model is scored."""
    sources, references = sentences.sources or (), sentences.references
    check_one_each(len(sources), "source", len(references), "reference")
    model = Translator.load(name, request.device, request.precision)
    request.say(f"{name}: translating {len(sentences.references):,} sentences")
    with request.show("translating", len(sentences.references)) as progress:
        found = model.evaluate_rows(
            list(zip(sources, references, strict=True)),
            name=sentences.name,
            progress=progress,
            **{**request.options, "to": to or None},
        )
    if found.cut:
        request.say(f"{name}: {found.cut:,} translations were cut at the maximum length: raise {option('max_extra')}")
    return found.translations, found.references
