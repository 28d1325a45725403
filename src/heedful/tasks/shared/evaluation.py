"""The scores of a model on one corpus, in several forms: the base class of the evaluations of all tasks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from heedful.base.errors import UserError
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.metrics.scores import ItemScores, Score, finite_scores


@dataclass(frozen=True, eq=False)
class Evaluation(ABC):
    """Scores of a model on one corpus."""

    # Scores by metrics of the caller's program:
    own: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    @abstractmethod
    def task_scores(self) -> Sequence[Score]:
        """Return the scores by the task's metrics."""

    @abstractmethod
    def remarks(self) -> Sequence[str]:
        """Return lines to show after the scores."""

    @abstractmethod
    def facts(self) -> Mapping[str, object]:
        """Return what JSON has besides the scores: sizes, times and tables."""

    def outputs(self) -> Iterator[str]:
        """Yield the model's outputs, one line per text; nothing where there is no output for each text."""
        return iter(())

    def outputs_and_references(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the model's outputs and what they should be, as metrics of the caller's program get them."""
        raise UserError("`metrics` score outputs, which this task's evaluation does not have: leave them out.")

    def item_scores(self) -> ItemScores | None:
        """Return what each item adds to the scores; None where models are not compared by items."""
        return None

    def with_metrics(self, metrics: Metrics) -> Self:
        """Return the evaluation with the scores of these metrics as well."""
        if not metrics:
            return self
        return replace(self, own={**self.own, **score_outputs(metrics, *self.outputs_and_references())})

    def scores(self) -> list[Score]:
        """Return the scores to show, to record and to average over models."""
        return [*self.task_scores(), *(Score(name, name, value) for name, value in self.own.items())]

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        own = {"metrics": dict(self.own)} if self.own else {}
        return {**finite_scores(self.task_scores()), **own, **self.facts()}
