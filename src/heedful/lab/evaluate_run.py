"""Evaluates the model of a run on the test corpora of its recipe, item by item where its task has such scores."""

from pathlib import Path
from typing import Any, Final

import numpy as np

from heedful.base.errors import UserError
from heedful.base.notes import ShowProgress, show_nothing
from heedful.data.corpora.files import check_files
from heedful.metrics.buckets import rows_by_length
from heedful.metrics.scores import ItemScore, ItemScores, finite_scores, macro_f1_of_sums
from heedful.models.bundle import ADAPTER, WEIGHTS, read_recipe
from heedful.pages.report.test_sets import CorpusScore, EvaluatedCorpus, ItemReport, LengthGroup, ScoredItem
from heedful.tasks.loading import find_task, load
from heedful.tasks.shared.evaluation import Evaluation

_FINE: Final = ("chrf", "f1", "mae")  # scores that tell more of an item than right or wrong, or than a correlation
_SHOWN: Final = 5  # best items, and worst ones
_ROUNDING: Final = 1e-6  # score differences below this are rounding errors


def check_run(run: Path) -> None:
    """Refuse, before anything long begins, a run without a model, a test corpus, or the files of one."""
    data = read_recipe(run).data
    if not data.test:
        raise UserError(
            f"{run}: its recipe has no `data.test`, so that there is nothing to evaluate its model on: leave out "
            "--evaluate; `heedful evaluate` scores models on other corpora."
        )
    if not any((run / name).exists() for name in (WEIGHTS, ADAPTER)):
        raise UserError(
            f"{run} holds no {WEIGHTS} yet, as training has not reached its first validation: leave out --evaluate "
            "until it has."
        )
    for corpus in data.test:
        check_files(corpus, data.folder)


def evaluate_run(
    run: Path, device: str = "auto", precision: str = "auto", show: ShowProgress = show_nothing, number: int = _SHOWN
) -> list[EvaluatedCorpus]:
    """Evaluate the model of a run on each test corpus of its recipe; `number` is that of the best and worst items."""
    check_run(run)
    model: Any = load(run, device, precision)
    recipe = model.recipe
    task = find_task(recipe)
    found = []
    for place, corpus in enumerate(recipe.data.test, start=1):
        evaluation: Evaluation = task.evaluate(model, corpus, recipe.data.folder, {}, show)
        items = evaluation.item_scores()
        shown = None if items is None else report_items(items, number)
        scores = evaluation.scores()
        values = finite_scores(scores)
        found.append(
            EvaluatedCorpus(
                corpus.name or str(place),
                corpus.title,
                [CorpusScore(one.name, one.label, values[one.name], one.show(), one.note) for one in scores],
                shown,
            )
        )
    return found


def report_items(items: ItemScores, number: int = _SHOWN) -> ItemReport:
    """Return the scores of items by length, and the best and the worst ones; of equal ones the first.

    An item as good as the best one is never among the worst.
    """
    chosen = _score_of_items(items)
    counts = chosen.counts()
    values = chosen.of_sums(counts)
    scored = np.flatnonzero(counts.any(axis=1)).tolist()
    badness = values * (1 if chosen.lower_is_better else -1)
    best = sorted(scored, key=badness.__getitem__)[: min(number, (len(scored) + 1) // 2)]
    worse = [row for row in scored if row not in best and badness[row] > badness[best[0]] + _ROUNDING]
    worst = sorted(worse, key=lambda row: -badness[row])[:number]

    def item(row: int) -> ScoredItem:
        given, true, said = items.shown[row]
        return ScoredItem(row + 1, given or "", said, true, float(values[row]))

    return ItemReport(
        items.unit,
        chosen.name,
        {score.name: score.label for score in items.scores},
        len(items.items),
        len(items.items) - len(scored),
        items.lengths_of,
        _by_length(items),
        list(map(item, best)),
        list(map(item, worst)),
    )


def _score_of_items(items: ItemScores) -> ItemScore:
    """Return the score that orders items: one finer than right or wrong where there is one.

    The mean F1 of classes says nothing of a single item, which has few of them, and a correlation nothing at all.
    """
    single = [score for score in items.scores if score.of_sums is not macro_f1_of_sums]
    return next((score for score in single if score.name in _FINE), single[0])


def _by_length(items: ItemScores) -> list[LengthGroup]:
    """Compute every score over the items of each length in words; empty groups are left out."""
    counted = {score.name: (score.of_sums, score.counts()) for score in items.scores} if items.lengths else {}
    return [
        LengthGroup(
            span.label,
            span.low,
            span.high,
            len(rows),
            {name: float(of_sums(counts[rows].sum(axis=0))) for name, (of_sums, counts) in counted.items()},
        )
        for span, rows in rows_by_length(items.lengths)
    ]
