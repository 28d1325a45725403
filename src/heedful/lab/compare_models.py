"""Compares models with each other and with existing translations, on a test set that their recipes share.

Translators translate it. Language models score each document by itself, from beginning to end: words and bytes do not
depend on a vocabulary. All other models are compared by their evaluations.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from heedful.base.errors import UserError, option, suggestion
from heedful.config.corpora.any import AnyCorpus
from heedful.config.task_rules import TaskRules
from heedful.config.tasks import refuse_evaluation_option
from heedful.data.corpora.documents import count_words, read_running_text
from heedful.data.corpora.files import check_files, content_key
from heedful.data.text_form import TextForm
from heedful.lab.compare import Comparison, ScoredRun, compare_items
from heedful.lab.comparison_request import ComparisonRequest, SentenceFiles, Sentences
from heedful.lab.test_sets import Described, check_given, common_rules, describe, recipe_corpus
from heedful.lab.translate_test_set import translate_test_set
from heedful.metrics.edits import Floats
from heedful.metrics.scores import ItemScore, ItemScores
from heedful.tasks.generate.model import TextGenerator
from heedful.tasks.loading import load
from heedful.tasks.table import find_task

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
