"""Scores of an evaluation: what a person reads, what is recorded, what has a mean over several models, and what two
models are compared by."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from heedful.metrics.edits import Floats, mean_of_sums, ratio


@dataclass(frozen=True)
class Score:
    """One figure of an evaluation."""

    name: str  # in records and JSON
    label: str  # for a person
    value: float
    unit: Literal["number", "percent", "loss"] = "number"  # percent: of a share between 0 and 1
    note: str = ""  # what stands after the value, such as a signature

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


# --- for comparisons --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ItemScore:
    """A score that depends on sums over the items of a test set, such as sentences: any of these can be drawn."""

    name: str  # as in `--metric`
    label: str  # for a person
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
    shown: Sequence[tuple[str, str, str]]  # each item, what is true of it, and what the model predicts
    lengths: Sequence[int] = ()  # in words; none where items do not consist of words
    lengths_of: str = ""  # "sentence": what has these lengths


def mean_score(name: str, label: str, signature: str, values: Callable[[], Sequence[float]]) -> ItemScore:
    """Return the mean of a value of each item, in percent."""

    def counts() -> Floats:
        found = np.array(values(), dtype=np.float64)
        return np.stack([found, np.ones_like(found)], axis=1)

    return ItemScore(name, label, signature, percent_of_sums, counts)


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
