"""Predicted numbers next to the true ones: errors, and correlations of the values and of their ranks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.metrics.edits import Floats, mean_of_sums, ratio
from heedful.metrics.rows import ItemCounts


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
