"""Scores of an evaluation: what a person reads, what is recorded, what has a mean over several models, and what two
models are compared by."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from heedful.metrics.edits import Floats, mean_of_sums, ratio
from heedful.metrics.rows import ItemValues, Rows, Unit


@dataclass(frozen=True)
class Score:
    """One figure of an evaluation."""

    name: str  # in records and JSON
    label: str  # human-readable name
    value: float
    unit: Unit = "number"
    note: str = ""  # what stands after the value, such as a signature
    lower_is_better: bool = False

    def show(self, value: float | None = None) -> str:
        """The value as a person reads it, or another one of the same unit."""
        shown = self.value if value is None else value
        match self.unit:
            case "percent":
                return f"{100 * shown:.2f}%"
            case "loss":
                return f"{shown:.4f}"
            case "number":
                return f"{shown:.2f}"


def finite_scores(scores: Sequence[Score]) -> dict[str, float | None]:
    """Values by name, as JSON can hold them: None where one is infinite or not a number."""
    return {score.name: score.value if math.isfinite(score.value) else None for score in scores}


def scores_of(rows: Rows, result: Any) -> list[Score]:
    """Return the scores of a result by the rows that apply to it."""
    return [
        Score(row.name, row.label, value, row.unit, row.note(result), row.better == "lower")
        for row in rows
        if (value := row.value(result)) is not None
    ]


# --- for comparisons --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ItemScore:
    """A score that depends on sums over the items of a test set, such as sentences: any of these can be drawn."""

    name: str  # as in `--metric`
    label: str  # human-readable name
    signature: str  # what is counted
    of_sums: Callable[[Floats], Floats]  # summed counts [..., counts] -> scores [...]
    counts: Callable[[], Floats]  # what each item adds to the sums [items, counts]
    lower_is_better: bool = False


@dataclass(frozen=True, eq=False)
class ItemScores:
    """What the items of a test set add to the scores of a model, and what can be shown of each."""

    unit: str  # "sentence": what an item is
    items: Sequence[Hashable]  # each item with what is true of it: models can be compared if these are equal
    scores: Sequence[ItemScore]
    shown: Sequence[tuple[str | None, str, str]]  # each item, what is true of it, and what the model predicts
    lengths: Sequence[int] = ()  # in words; none where items do not consist of words
    lengths_of: str = ""  # "sentence": what has these lengths
    numbered: str = ""  # "line": what readers count to find an item, if not the unit


def item_scores_of(rows: Rows, result: Any) -> tuple[ItemScore, ...]:
    """Return what each item of a result adds to the scores that models are compared by, the main score first."""
    found = []
    for row in sorted(rows, key=lambda row: not row.main):
        if row.items is None or row.value(result) is None:
            continue
        items = row.items(result)
        of_sums, counts = (
            (percent_of_sums, partial(_counts_of_mean, items.values))
            if isinstance(items, ItemValues)
            else (items.of_sums, items.counts)
        )
        found.append(ItemScore(row.name, row.label, items.signature, of_sums, counts, row.better == "lower"))
    return tuple(found)


def _counts_of_mean(values: Sequence[float]) -> Floats:
    found = np.array(values, dtype=np.float64)
    return np.stack([found, np.ones_like(found)], axis=1)


def percent_of_sums(sums: Floats) -> Floats:
    """Return the first count divided by the second, in percent."""
    return 100 * mean_of_sums(sums)


def f1_of_sums(sums: Floats) -> Floats:
    """F1 = 2 right / (predicted + true), in percent; these are the three counts."""
    return 100 * ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])


def macro_f1_of_sums(sums: Floats) -> Floats:
    """Return the mean F1 over classes, in percent; the counts are `right`, `predicted` and `true` of every class."""
    right, predicted, true = np.split(sums, 3, axis=-1)
    return 100 * np.asarray(ratio(2 * right, predicted + true).mean(axis=-1))
