"""Scores of a regressor on texts or images with numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from heedful.base.columns import one_column
from heedful.base.errors import counted
from heedful.metrics.scores import ItemScores, Score, item_scores_of, scores_of
from heedful.tasks.regress.metrics import METRICS
from heedful.tasks.regress.numbers import NumberResult
from heedful.tasks.shared.evaluation import Evaluation


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberEvaluation(Evaluation):
    """Scores of a regressor, and its numbers next to the true ones."""

    result: NumberResult
    noun: str  # what has a number
    rows: tuple[tuple[str, ...], ...]  # what is shown of each: the text, the two of a pair, or the name of an image
    blank: int = 0  # number of blank texts, which were left out
    seconds: float  # time to predict

    @property
    def per_second(self) -> float:
        """Number of predictions per second."""
        return len(self.rows) / self.seconds

    def task_scores(self) -> list[Score]:
        """Return correlations, errors and loss."""
        return scores_of(METRICS, self.result)

    def outputs_and_references(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the predicted and the true numbers."""
        return self.result.predicted.tolist(), self.result.true.tolist()

    def item_scores(self) -> ItemScores:
        """Return what each row adds to the scores."""
        predicted, true = self.outputs_and_references()
        return ItemScores(
            self.noun,
            list(zip(self.rows, true, strict=True)),
            item_scores_of(METRICS, self.result),
            [
                (" ".join(row), f"{aim:g}", f"{number:.4g}")
                for row, aim, number in zip(self.rows, true, predicted, strict=True)
            ],
        )

    def remarks(self) -> list[str]:
        """Return the time taken."""
        blank = f", {counted(self.blank, 'blank one')} left out" if self.blank else ""
        speed = f"{self.per_second:,.0f} {self.noun}s/s"
        return [f"{counted(len(self.rows), self.noun)} in {self.seconds:.1f} s{blank}, {speed}"]

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
        predicted, true = self.outputs_and_references()
        for row, aim, number in zip(self.rows, true, predicted, strict=True):
            yield "\t".join([f"{aim:g}", f"{number:.6g}", *map(one_column, row)])
