"""Predicted numbers next to the true ones: errors, correlations of the values and of their ranks; and evaluations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.base.columns import one_column
from heedful.base.errors import counted
from heedful.metrics.edits import Floats, mean_of_sums, ratio
from heedful.metrics.rows import ItemCounts
from heedful.tasks.regress.metrics import METRICS
from heedful.tasks.shared.evaluation import Item, ItemEvaluation


@dataclass(frozen=True, eq=False)
class NumberResult:
    """Numbers that a model predicted, and the true ones."""

    predicted: NDArray[np.float64]
    true: NDArray[np.float64]
    loss: float  # what training minimises: the mean error in units of the training numbers' deviation

    @classmethod
    def of(cls, predicted: Sequence[float], true: Sequence[float], deviation: float, squared: bool) -> "NumberResult":
        """Compare numbers, whose training data had this deviation; the loss is the squared or the absolute error."""
        said, wanted = np.asarray(predicted, np.float64), np.asarray(true, np.float64)
        errors = np.abs(said - wanted) / deviation
        return cls(said, wanted, float((errors**2 if squared else errors).mean()))

    def outputs(self) -> tuple[list[float], list[float]]:
        """Return the predicted and the true numbers."""
        return self.predicted.tolist(), self.true.tolist()

    @cached_property
    def errors(self) -> NDArray[np.float64]:
        """The difference of each prediction from the truth."""
        return self.predicted - self.true

    @property
    def mean_absolute_error(self) -> float:
        """Mean distance from the truth."""
        return float(np.abs(self.errors).mean())

    @property
    def root_mean_squared_error(self) -> float:
        """Square root of the mean squared distance from the truth."""
        return float(np.sqrt(np.square(self.errors).mean()))

    @property
    def explained(self) -> float:
        """R^2 = 1 - sum (p - t)^2 / sum (t - mean t)^2: 0 for a model that always predicts the mean; at most 1."""
        spread = float(np.square(self.true - self.true.mean()).sum())
        return 1 - float(np.square(self.errors).sum()) / spread if spread else 0.0

    @property
    def pearson(self) -> float:
        """Pearson's r between the values; 0 where either side does not vary."""
        return float(correlation_of_sums(_moments(self.predicted, self.true).sum(0)))

    @property
    def spearman(self) -> float:
        """Spearman's rho, which is Pearson's r between the ranks; equal values share the mean of their ranks."""
        return float(correlation_of_sums(self._rank_moments.sum(0)))

    @cached_property
    def _rank_moments(self) -> Floats:
        return _moments(ranks(self.predicted), ranks(self.true))

    def correlation_items(self, of_ranks: bool) -> ItemCounts:
        """Return what each row adds to a correlation; ranks are those among all rows."""
        moments = self._rank_moments if of_ranks else _moments(self.predicted, self.true)
        words = "of ranks among all rows" if of_ranks else "of values"
        return ItemCounts(f"correlation {words}", lambda sums: 100 * correlation_of_sums(sums), lambda: moments)

    def error_items(self) -> ItemCounts:
        """Return what each row adds to the mean absolute error."""
        counts = np.stack([np.abs(self.errors), np.ones_like(self.errors)], axis=1)
        return ItemCounts("mean distance from the truth", mean_of_sums, lambda: counts)


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each value, from 1 on; equal values share the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    found: NDArray[np.float64] = (last - (counts - 1) / 2)[group]
    return found


def _moments(x: NDArray[Any], y: NDArray[Any]) -> Floats:
    """Return 1, x, y, x^2, y^2 and xy of each row, centred so that sums of large values lose no digits."""
    x, y = x - x.mean(), y - y.mean()
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def correlation_of_sums(sums: Floats) -> Floats:
    """r = (n Sxy - Sx Sy) / sqrt((n Sxx - Sx^2) (n Syy - Sy^2)), or 0 where either side does not vary."""
    n, x, y, xx, yy, xy = np.moveaxis(np.asarray(sums, np.float64), -1, 0)
    spread = np.clip(n * xx - x * x, 0, None) * np.clip(n * yy - y * y, 0, None)
    return ratio(n * xy - x * y, np.sqrt(spread))


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberEvaluation(ItemEvaluation):
    """Scores of a regressor, and its numbers next to the true ones."""

    metrics = METRICS

    result: NumberResult
    rows: tuple[tuple[str, ...], ...]  # what is shown of each: the text, the two of a pair, or the name of an image

    @property
    def per_second(self) -> float:
        """Number of predictions per second."""
        return len(self.rows) / self.seconds

    def items(self) -> Iterator[Item]:
        """Yield the rows with their numbers."""
        for row, number, true in zip(self.rows, *self.outputs_and_references(), strict=True):
            yield Item((row, true), " ".join(row), f"{true:g}", f"{number:.4g}")

    def remarks(self) -> list[str]:
        """Return the time taken."""
        return [self.timing(counted(len(self.rows), self.noun), len(self.rows), self.noun)]

    def facts(self) -> dict[str, object]:
        """Return sizes and times."""
        return {
            f"{self.noun}s": len(self.rows),
            "blank": self.blank,
            f"{self.noun}s_per_second": round(self.per_second, 1),
            "seconds": round(self.seconds, 3),
        }

    def outputs(self) -> Iterator[str]:
        """Yield one line per row: its true number, the predicted one, and what shows it."""
        for row, number, true in zip(self.rows, *self.outputs_and_references(), strict=True):
            yield "\t".join([f"{true:g}", f"{number:.6g}", *map(one_column, row)])
