"""Compares models with each other and with existing translations, on a test set that their recipes share.

Translators translate it. Language models score each document by itself, from beginning to end: words and bytes do not
depend on a vocabulary. All other models are compared by their evaluations.
"""

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import Final

import numpy as np

from heedful.base.arguments import check_one_each
from heedful.base.errors import HeedfulError, UserError, by_caller, option, suggestion
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.config.tasks import refuse_evaluation_option
from heedful.data.corpora.documents import count_words, read_running_text
from heedful.data.corpora.files import check_files, content_key
from heedful.data.corpora.pairs import read_pairs, read_references
from heedful.data.text_form import TextForm
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.lab.compare import Comparison, Frequencies, ScoredRun, System, check_lines, compare_items
from heedful.lab.comparison_request import ComparisonRequest, SentenceFiles, Sentences, Translated, names_of_sentences
from heedful.lab.test_sets import Described, check_given, common_rules, describe, recipe_corpus
from heedful.metrics.edits import Floats, Reference, first_variant
from heedful.metrics.scores import ItemScore, ItemScores
from heedful.metrics.summed_metrics import TextScoring, word_splitter
from heedful.tasks.generate.model import TextGenerator
from heedful.tasks.loading import find_task, load
from heedful.tasks.shared.sequences.text_codec import TextCodec
from heedful.tasks.translate.model import Translator

_DEFAULT: Final = 2  # number of a task's metrics that are reported if none is asked for
_MANY: Final = 100  # classes, with more of which macro F1 takes long: every draw counts each of them
_AT_ONCE: Final = 64  # documents that are scored together

ScoreModel = Callable[[str], ItemScores]  # what the model in a folder adds to the scores


def compare_models(request: ComparisonRequest) -> tuple[Comparison, str]:
    """Compare two sides, at least one of which has models; also return the name of the test set."""
    described = describe(request.models)
    rules = common_rules(described, "compare models of one task")
    if rules.scored == "pairs":
        return translate_test_set(request, described).compare(request)
    first, *others = described
    if not rules.compared_by:
        raise UserError(
            f"{first} is a model that {rules.does}, and such models cannot be compared item by item: use "
            "`heedful evaluate`."
        )
    _refuse_translations(request, rules)
    request.check_sources()
    if isinstance(request.given, SentenceFiles):
        check_given(request.given.corpus(), rules, first)
    classes = described[first][1].labels
    for model in others:
        if set(described[model][1].labels) != set(classes):
            raise UserError(f"{model} has other classes than {first}: only models with the same ones can be compared.")
    names = _metric_names(request.metrics, rules, len(classes))
    title, score = (_documents if rules.scored == "texts" else _evaluations)(request, described, names)
    items: dict[str, ItemScores] = {}
    for model in described:
        items[model] = score(model)
        _refuse_other_items(first, items[first].items, model, items[model].items, items[first].unit)
    if len(items[first].items) < 2:
        raise UserError(f"A comparison needs at least two {items[first].unit}s, but the test set has one.")
    found = compare_items(
        [ScoredRun(name, items[name]) for name in request.a],
        [ScoredRun(name, items[name]) for name in request.b],
        names,
        shown_by="chrf" if "chrf" in [score.name for score in items[first].scores] else names[0],
        samples=request.samples,
        seed=request.seed,
        examples=request.examples,
    )
    return found, title


def _refuse_translations(request: ComparisonRequest, rules: TaskRules) -> None:
    """Refuse what only translators have, where models of another task are compared."""
    model, given = request.models[0], request.given
    idle = {
        "references": isinstance(given, Sentences),
        "to": given and given.to,
        "bleu_tokenize": request.bleu_tokenize,
    }
    for name in (name for name, value in idle.items() if value):
        raise UserError(f"{option(name)} is for translators, which {model} is not: leave it out.")
    for name in request.options:
        refuse_evaluation_option(name, option(name), rules, model)
    for system in request.systems:
        raise UserError(
            f"{system.name} has translations, but {model} is a model that {rules.does}: compare it with another model."
        )


def _metric_names(asked: Sequence[str] | None, rules: TaskRules, classes: int) -> Sequence[str]:
    for name in asked or ():
        if name not in rules.compared_by:
            raise UserError(
                f"`{name}` is not a metric that models are compared by if one {rules.does}."
                f"{suggestion(name, rules.compared_by)}"
            )
    usual = [name for name in rules.compared_by[:_DEFAULT] if classes <= _MANY or name != "f1" or not rules.labels]
    return tuple(dict.fromkeys(asked or usual or rules.compared_by[:1]))


def _refuse_other_items(
    first: str, common: Sequence[object], model: str, here: Sequence[object], unit: str = "document"
) -> None:
    if list(here) != list(common):
        raise UserError(
            f"{first} and {model} read different {unit}s of the test set, or other labels or another form of text, as "
            "their recipes differ: only scores on the same ones can be compared."
        )


# --- scores per item ----------------------------------------------------------------------------------------------


def _evaluations(request: ComparisonRequest, described: Described, names: Sequence[str]) -> tuple[str, ScoreModel]:
    """Return the name of a test set with the same content for all models, and how a model is evaluated on it."""
    first = request.models[0]
    options = dict(request.options)
    if "metric" in described[first][0].rules.evaluation_options:
        options["metric"] = names
    tests: dict[str, tuple[AnyCorpus, str]]
    if isinstance(request.given, SentenceFiles):
        tests = dict.fromkeys(described, (request.given.corpus(), ""))
    else:
        tests = {
            model: (recipe_corpus(model, recipe, request.split, request.corpus), recipe.data.folder)
            for model, (recipe, _) in described.items()
        }
        for corpus, folder in tests.values():
            check_files(corpus, folder)
        contents = {model: content_key(*test) for model, test in tests.items()}
        for model, content in contents.items():
            if content != contents[first]:
                names = " and ".join(tests[one][0].title for one in (first, model))
                raise UserError(
                    f"{first} and {model} have different test sets ({names}): only scores on the same one can be "
                    "compared."
                )

    def evaluate(model: str) -> ItemScores:
        corpus, folder = tests[model]
        request.say(f"{model}: evaluating {corpus.title}")
        loaded = load(model, request.device, request.precision)
        evaluation = find_task(loaded.recipe).evaluate(loaded, corpus, folder, options, request.show)
        items = evaluation.item_scores()
        assert items is not None, f"{loaded.recipe.rules.name} has metrics, but no items"
        return items

    return tests[first][0].title, evaluate


def _documents(request: ComparisonRequest, described: Described, names: Sequence[str]) -> tuple[str, ScoreModel]:
    """Return the name of a test set of the same documents for all models, and how a model scores them."""
    read: dict[str, list[str]] = {}
    for model, (recipe, _) in described.items():
        corpus = recipe_corpus(model, recipe, request.split, request.corpus)
        check_files(corpus, recipe.data.folder)
        read[model] = list(read_running_text(corpus, recipe.data.folder, TextForm.of(recipe.data)))
        _refuse_other_items(request.models[0], read[request.models[0]], model, read[model])
    texts = read[request.models[0]]
    if len(texts) < 2:
        raise UserError(
            f"{corpus.title} is one document, but a comparison needs at least two, as it draws documents: divide it "
            'with `documents = "blank_line"` in the recipes, or compare the scores of `heedful evaluate`.'
        )
    words, sizes = [count_words(text) for text in texts], [len(text.encode()) for text in texts]

    def score(model: str) -> ItemScores:
        request.say(f"{model}: reading {len(texts):,} documents")
        loaded = TextGenerator.load(model, request.device, request.precision)
        found: list[float] = []
        with request.show("reading", len(texts)) as advance:
            for start in range(0, len(texts), _AT_ONCE):
                part = texts[start : start + _AT_ONCE]
                found += [one.log_probability for one in loaded.score(part)]
                advance(len(part))
        counts: Floats = np.stack([np.array(found), words, sizes], axis=1)
        scores = [
            ItemScore(
                "bits_per_byte",
                "bits per byte",
                "-log2 P over bytes of UTF-8, of whole documents",
                lambda sums: -sums[..., 0] / math.log(2) / np.maximum(1, sums[..., 2]),
                lambda: counts,
                lower_is_better=True,
            ),
            ItemScore(
                "word_perplexity",
                "word perplexity",
                "exp(-log P / words), a line break counts as a word",
                lambda sums: np.exp(np.minimum(-sums[..., 0] / np.maximum(1, sums[..., 1]), 700)),
                lambda: counts,
                lower_is_better=True,
            ),
        ]
        return ItemScores("document", texts, scores, (), words, "document", numbered="line")

    return corpus.title, score


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
