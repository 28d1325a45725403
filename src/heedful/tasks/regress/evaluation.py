"""Scores of a regressor on texts or images with numbers."""

from collections.abc import Iterator
from dataclasses import dataclass

from heedful.base.columns import in_digits, one_column
from heedful.base.errors import counted
from heedful.tasks.regress.metrics import METRICS
from heedful.tasks.regress.numbers import NumberResult
from heedful.tasks.shared.evaluation import Item, ItemEvaluation


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
            yield Item((row, true), " ".join(row), in_digits(true, 15), in_digits(number, 4))

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
            yield "\t".join([in_digits(true, 15), in_digits(number, 6), *map(one_column, row)])
