"""Compares two models of one task by their evaluations: parsers, taggers, readers and classifiers.

Every item of the test set, such as a sentence, adds counts to a score: the brackets of its tree, for example, which
labelled F1 sums up over the test set as evalb does. The tests draw items.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from heedful.base.errors import UserError, by_caller, suggestion
from heedful.base.progress import ShowProgress, show_nothing
from heedful.config.corpora.any import AnyCorpus
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.config.tasks import refuse_evaluation_option
from heedful.data.corpora.files import check_files, content_key
from heedful.lab.compare import Bucket, Comparison, Example, ScorePair, compare_counts, rows_ahead
from heedful.metrics.buckets import LENGTHS, span_index
from heedful.metrics.scores import ItemScore, ItemScores
from heedful.metrics.significance import run_scores
from heedful.metrics.summed_metrics import Floats
from heedful.models.bundle import read_description
from heedful.tasks.loading import load
from heedful.tasks.shared.task import ScoresItems
from heedful.tasks.table import task_named

_DEFAULT: Final = 2  # number of a task's metrics that are reported if none is asked for
_MANY: Final = 100  # classes, with more of which macro F1 takes long: every draw counts each of them


@dataclass(frozen=True)
class EvaluationRequest:
    """Where two sides are compared, and how."""

    metrics: Sequence[str] = ()
    given: AnyCorpus | None = None  # instead of the recipes' corpora
    split: Literal["valid", "test"] = "test"
    corpus: str | None = None  # its name or number; None: the first
    samples: int = 1000
    seed: int = 12345
    examples: int = 5
    device: str = "auto"
    precision: str = "auto"


def are_evaluated(models: Sequence[str]) -> bool:
    """Whether the first of some models is compared by its evaluation: the others must then be so too."""
    return bool(models) and bool(read_description(Path(models[0]))[0].rules.compared_by)


def compare_evaluations(
    a: Sequence[str],
    b: Sequence[str],
    request: EvaluationRequest,
    options: Mapping[str, Any] = {},
    say: Callable[[str], None] = lambda message: None,
    show: ShowProgress = show_nothing,
) -> tuple[Comparison, str]:
    """Compare two sides, each the folders of one or several runs; also return the name of the test set.

    `options` are those of the search, if the models generate by one.
    """
    described = {model: read_description(Path(model)) for model in dict.fromkeys([*a, *b])}
    recipes = {model: recipe for model, (recipe, _) in described.items()}
    rules = _common_rules(recipes)
    for name in options:
        refuse_evaluation_option(name, by_caller(f"--{name.replace('_', '-')}", f"`{name}`"), rules, a[0])
    classes = {model: vocabularies.labels for model, (_, vocabularies) in described.items()}
    _refuse_other_classes(classes)
    names = _metric_names(request.metrics, rules, len(classes[a[0]]))
    tests = _common_tests(recipes, rules, request)
    found: dict[str, ItemScores] = {}
    for model, (corpus, folder) in tests.items():
        found[model] = _item_scores(model, corpus, folder, request, options, say, show)
        _refuse_other_items(found, a[0], model)
    first = found[a[0]]
    sides = _Sides([found[model] for model in a], [found[model] for model in b])
    better_a, better_b = sides.examples(names[0], request.examples)
    return Comparison(
        a=tuple(a),
        b=tuple(b),
        sentences=len(first.items),
        samples=request.samples,
        seed=request.seed,
        metrics=tuple(
            compare_counts(
                (score.label, score.signature, score.lower_is_better),
                score.of_sums,
                of_a,
                of_b,
                request.samples,
                request.seed,
            )
            for score, of_a, of_b in map(sides.counts, names)
        ),
        lengths=sides.by_length(names),
        words=(),
        frequencies_of="",
        better_a=better_a,
        better_b=better_b,
        unit=first.unit,
        lengths_of=first.lengths_of,
        numbered=first.unit,
    ), next(iter(tests.values()))[0].title


# --- what is compared -------------------------------------------------------------------------------------------------


def _common_rules(recipes: Mapping[str, Recipe]) -> TaskRules:
    (first, recipe), *others = recipes.items()
    for model, other in others:
        if other.rules.name != recipe.rules.name:
            raise UserError(
                f"{model} is a model that {other.rules.does}, but {first} is one that {recipe.rules.does}: compare "
                "models of one task."
            )
    return recipe.rules


def _refuse_other_classes(classes: Mapping[str, tuple[str, ...]]) -> None:
    (first, labels), *others = classes.items()
    for model, here in others:
        if set(here) != set(labels):
            raise UserError(f"{model} has other classes than {first}: only models with the same ones can be compared.")


def _metric_names(asked: Sequence[str], rules: TaskRules, classes: int) -> Sequence[str]:
    for name in asked:
        if name not in rules.compared_by:
            raise UserError(
                f"`{name}` is not a metric that models are compared by if one {rules.does}."
                f"{suggestion(name, rules.compared_by)}"
            )
    usual = [name for name in rules.compared_by[:_DEFAULT] if classes <= _MANY or name != "f1" or not rules.labels]
    return tuple(dict.fromkeys(asked or usual or rules.compared_by[:1]))


def _common_tests(
    recipes: Mapping[str, Recipe], rules: TaskRules, request: EvaluationRequest
) -> dict[str, tuple[AnyCorpus, str]]:
    """Return the test corpus of each model, and the folder that its files are in; all have the same content."""
    if request.given is not None:
        if rules.test_files is None:
            given = by_caller("--source and --target are", "`sources` and `references` are")
            raise UserError(
                f"{given} for texts with labels or translations, but {next(iter(recipes))} is a model that "
                f"{rules.does}: leave them out."
            )
        check_files(request.given)
        return dict.fromkeys(recipes, (request.given, ""))
    tests = {model: (_corpus(model, recipe, request), recipe.data.folder) for model, recipe in recipes.items()}
    for corpus, folder in tests.values():
        check_files(corpus, folder)
    (first, common), *others = ((model, content_key(*test)) for model, test in tests.items())
    for model, here in others:
        if here != common:
            names = " and ".join(tests[one][0].title for one in (first, model))
            raise UserError(
                f"{first} and {model} have different test sets ({names}): only scores on the same one can be compared."
            )
    return tests


def _corpus(model: str, recipe: Recipe, request: EvaluationRequest) -> AnyCorpus:
    corpora: tuple[AnyCorpus, ...] = getattr(recipe.data, request.split)
    known = {corpus.name or str(number): corpus for number, corpus in enumerate(corpora, start=1)}
    if not known:
        other = "valid" if request.split == "test" else "test"
        way_out = f"choose {by_caller(f'--split {other}', f'split={other!r}')}"
        raise UserError(f"{model}: its recipe has no `data.{request.split}`: {way_out}.")
    if request.corpus is not None and request.corpus not in known:
        raise UserError(
            f"{model}: its recipe has no corpus `{request.corpus}` in `data.{request.split}`."
            f"{suggestion(request.corpus, list(known))}"
        )
    return corpora[0] if request.corpus is None else known[request.corpus]


# --- scores -----------------------------------------------------------------------------------------------------------


def _item_scores(
    model: str,
    corpus: AnyCorpus,
    folder: str,
    request: EvaluationRequest,
    options: Mapping[str, Any],
    say: Callable[[str], None],
    show: ShowProgress,
) -> ItemScores:
    say(f"{model}: evaluating {corpus.title}")
    loaded = load(model, request.device, request.precision)
    evaluation = task_named(loaded.recipe.rules.name).evaluate(loaded, corpus, folder, options, show)
    assert isinstance(evaluation, ScoresItems), f"{loaded.recipe.rules.name} has metrics, but no items"
    return evaluation.item_scores()


def _refuse_other_items(found: Mapping[str, ItemScores], first: str, model: str) -> None:
    common, here = found[first], found[model]
    if list(here.items) != list(common.items):
        raise UserError(
            f"{first} and {model} read different {common.unit}s of the test set, or other labels, as their recipes "
            "differ: only scores on the same ones can be compared."
        )
    if len(here.items) < 2:
        raise UserError(f"A comparison needs at least two {common.unit}s, but the test set has one.")


@dataclass(frozen=True)
class _Sides:
    """The runs of both sides."""

    a: Sequence[ItemScores]
    b: Sequence[ItemScores]

    def counts(self, name: str) -> tuple[ItemScore, Floats, Floats]:
        """Return a metric, and the counts of each side [runs, items, counts]."""
        of_a, of_b = (np.stack([_metric(run, name).counts() for run in side]) for side in (self.a, self.b))
        return _metric(self.a[0], name), of_a, of_b

    def by_length(self, names: Sequence[str]) -> tuple[Bucket, ...]:
        """Compute every metric over the items of each length in words; empty groups are left out."""
        indices = np.array([span_index(words, LENGTHS) for words in self.a[0].lengths])
        members = [np.flatnonzero(indices == number) for number in range(len(LENGTHS))]
        counted = [self.counts(name) for name in names]
        return tuple(
            Bucket(
                span,
                len(rows),
                tuple(
                    ScorePair(
                        score.label, *(float(run_scores(score.of_sums, side[:, rows]).mean()) for side in (of_a, of_b))
                    )
                    for score, of_a, of_b in counted
                ),
            )
            for span, rows in zip(LENGTHS, members, strict=True)
            if len(rows)
        )

    def examples(self, name: str, number: int) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
        """Return the items on which A is better by a metric, and those on which B is."""
        score, of_a, of_b = self.counts(name)
        means_a, means_b = (score.of_sums(side).mean(axis=0) for side in (of_a, of_b))

        def example(row: int) -> Example:
            item, true, _ = self.a[0].shown[row]
            said_a, said_b = (tuple(run.shown[row][2] for run in side) for side in (self.a, self.b))
            pair = ScorePair(score.label, float(means_a[row]), float(means_b[row]))
            return Example(row + 1, item, true, said_a, said_b, pair)

        ahead_a, ahead_b = rows_ahead(means_b - means_a, number)
        return tuple(map(example, ahead_a)), tuple(map(example, ahead_b))


def _metric(scores: ItemScores, name: str) -> ItemScore:
    return next(score for score in scores.scores if score.name == name)
