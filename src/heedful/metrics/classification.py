"""Scores of a classifier: accuracy, F1, and the confusion matrix.

    precision = right / predicted      recall = right / true      F1 = 2 right / (predicted + true)

Macro F1 is the mean over classes; micro F1 weights all decisions equally, and equals the accuracy if every text has one
class. In code, `said` marks the predicted classes.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from heedful.base.columns import align_columns, one_column
from heedful.metrics.rows import ItemCounts, ItemValues
from heedful.metrics.scores import macro_f1_of_sums

Counts = NDArray[np.int64]
_Z: Final = 1.959963984540054  # 95% of a normal distribution lie within this many standard deviations


@dataclass(frozen=True, eq=False)
class ClassificationResult:
    """The predicted and the true classes of texts."""

    labels: tuple[str, ...]
    true: NDArray[np.bool_]  # texts x classes; none is true of a text whose class the model does not have
    said: NDArray[np.bool_]
    loss: float = math.nan  # -log P of the true classes, mean over texts
    several: bool = False  # whether a text may have several classes, or none
    noun: str = "text"  # what is classified, in words

    @property
    def texts(self) -> int:
        """The number of texts."""
        return len(self.true)

    def outputs(self) -> tuple[list[Any], list[Any]]:
        """Return the predicted and the true classes by name: a label per text, or a tuple if there can be several."""
        said, true = (
            [tuple(label for label, mark in zip(self.labels, row, strict=True) if mark) for row in marks.tolist()]
            for marks in (self.said, self.true)
        )
        return (said, true) if self.several else (["".join(one) for one in said], ["".join(one) for one in true])

    @property
    def accuracy(self) -> float:
        """The fraction of texts whose predicted classes are exactly the true ones."""
        return self.right_texts / self.texts

    @property
    def right_texts(self) -> int:
        """The number of texts whose predicted classes are exactly the true ones."""
        return int(self.right_rows.sum())

    @property
    def right_rows(self) -> NDArray[np.bool_]:
        """Whether the predicted classes of each text are exactly the true ones."""
        return (self.true == self.said).all(axis=1)

    @property
    def accuracy_interval(self) -> tuple[float, float]:
        """The 95% confidence interval of the accuracy."""
        return wilson_interval(self.right_texts, self.texts)

    @property
    def right(self) -> Counts:
        """The number of correctly predicted texts of each class."""
        return (self.true & self.said).sum(axis=0)

    @property
    def precision(self) -> NDArray[np.float64]:
        """Right / predicted for each class; 0 if the class was never predicted."""
        return _ratio(self.right, self.said.sum(axis=0))

    @property
    def recall(self) -> NDArray[np.float64]:
        """Right / true for each class; 0 if the class never occurs."""
        return _ratio(self.right, self.true.sum(axis=0))

    @property
    def f1(self) -> NDArray[np.float64]:
        """The harmonic mean of precision and recall for each class."""
        return _ratio(2 * self.right, self.said.sum(axis=0) + self.true.sum(axis=0))

    @property
    def macro_f1(self) -> float:
        """The mean F1 over classes."""
        return float(self.f1.mean())

    @property
    def micro_f1(self) -> float:
        """The F1 over all decisions."""
        return float(_ratio(2 * self.right.sum(), self.said.sum() + self.true.sum()))

    def class_counts(self) -> NDArray[np.float64]:
        """Return what each text adds to `right`, `predicted` and `true` of every class, classes by name."""
        order = np.argsort(np.array(self.labels), kind="stable")
        said, true = self.said[:, order], self.true[:, order]
        return np.concatenate([said & true, said, true], axis=1).astype(np.float64)

    def describe_right(self, noun: str = "") -> str:
        """Return the number of right texts and the interval of the accuracy in words."""
        low, high = (100 * end for end in self.accuracy_interval)
        return f"{self.right_texts:,} of {self.texts:,}{noun}; 95% interval {low:.1f}% to {high:.1f}%"

    def accuracy_items(self) -> ItemValues:
        """Return what each text adds to the accuracy."""
        return ItemValues(f"{self.noun}s whose labels are right", self.right_rows.tolist())

    def f1_items(self) -> ItemCounts:
        """Return what each text adds to the mean F1 over classes."""
        return ItemCounts("mean F1 of classes", macro_f1_of_sums, self.class_counts)

    def by_class(self) -> Iterator[tuple[str, float, float, float, int]]:
        """The label, precision, recall, F1 and number of texts of each class."""
        return zip(self.labels, self.precision, self.recall, self.f1, self.true.sum(axis=0), strict=True)

    def facts_by_class(self, noun: str) -> list[dict[str, object]]:
        """Return what JSON has of each class; `noun` is what has classes."""
        return [
            {"label": label, "precision": precision, "recall": recall, "f1": f1, noun: int(count)}
            for label, precision, recall, f1, count in self.by_class()
        ]

    @property
    def confusion(self) -> Counts:
        """The number of texts of each true class (rows) and predicted class (columns); for texts with one class."""
        return self.true.astype(np.int64).T @ self.said.astype(np.int64)


def score_table(kind: str, rows: Iterable[tuple[str, float, float, float, int]], noun: str) -> list[str]:
    """Format the precision, recall, F1 and number of each class, or of another kind, one line for each."""
    shown = [
        [one_column(name), *(f"{100 * share:.2f}%" for share in shares), f"{count:,}"] for name, *shares, count in rows
    ]
    return align_columns([[kind, "precision", "recall", "F1", noun], *shown])


def wilson_interval(right: int, count: int) -> tuple[float, float]:
    """(p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)      Wilson 1927

    The interval of all p' with |p - p'| <= z sqrt(p' (1 - p') / n), where p = right / count and n = count.
    """
    share, z_squared = right / count, _Z**2 / count
    middle = share + z_squared / 2
    reach = math.sqrt(z_squared * (share * (1 - share) + z_squared / 4))
    low, high = ((middle + sign * reach) / (1 + z_squared) for sign in (-1, 1))
    return max(0.0, low), min(1.0, high)  # rounding may exceed the bounds


def mark_classes(classes: Sequence[Sequence[int]], count: int) -> NDArray[np.bool_]:
    """Return a matrix that marks the classes of each text, of `count` classes."""
    true = np.zeros((len(classes), count), np.bool_)
    rows = np.repeat(np.arange(len(classes)), [len(of_text) for of_text in classes])
    true[rows, np.array([number for of_text in classes for number in of_text], np.int64)] = True
    return true


def _ratio(part: Counts, whole: Counts) -> NDArray[np.float64]:
    return np.where(whole > 0, part / np.maximum(whole, 1), 0.0)
