"""The scores of a model on one corpus, in several forms: the base class of the evaluations of all tasks."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

from heedful.base.errors import UserError, counted, suggestion
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.metrics.rows import Rows
from heedful.metrics.scores import ItemScores, Score, finite_scores, item_scores_of, scores_of


@dataclass(frozen=True, eq=False)
class Evaluation(ABC):
    """Scores of a model on one corpus."""

    # Scores by metrics of the caller's program:
    own: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    chosen: tuple[str, ...] = field(default=(), kw_only=True)  # names of the task's scores to show; none: all

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

    def choose(self, names: Sequence[str]) -> Self:
        """Return the evaluation with these of the task's scores alone, in this order; none stand for all."""
        known = [score.name for score in self.task_scores()] if names else []
        for name in names:
            if name not in known:  # a metric of the task, such as that of several labels
                raise UserError(f"`{name}` does not apply to this model: use one of {', '.join(known)}.")
        return replace(self, chosen=tuple(names))

    def scores(self) -> list[Score]:
        """Return the scores to show, to record and to average over models."""
        return [*self._chosen_scores(), *(Score(name, name, value) for name, value in self.own.items())]

    def score(self, name: str) -> float:
        """Return a score by its name, as in `--json` and `train.validation.metric`: `found.score("accuracy")`.

        Shares, such as accuracy, are between 0 and 1; BLEU, chrF, TER, PER and WER are in percent.
        """
        values = self._values()
        if name not in values:
            raise UserError(f"`{name}` is not a score of this evaluation.{suggestion(str(name), [*values])}")
        return values[name]

    def _values(self) -> dict[str, float]:
        return {score.name: score.value for score in (*self.task_scores(), *self.scores())}

    def _chosen_scores(self) -> Sequence[Score]:
        of_task = self.task_scores()
        if not self.chosen:
            return of_task
        return [score for name in dict.fromkeys(self.chosen) for score in of_task if score.name == name]

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        own = {"metrics": dict(self.own)} if self.own else {}
        return {**finite_scores(self._chosen_scores()), **own, **self.facts()}


class Item(NamedTuple):
    """An item of an evaluation, such as a text, and what can be shown of it."""

    known: Hashable  # the item with what is true of it: models can be compared if these are equal
    shown: str
    true: str
    said: str  # what the model predicts
    length: int = 0  # in words


@dataclass(frozen=True, eq=False, kw_only=True)
class ItemEvaluation(Evaluation):
    """Scores of predictions for items next to what is true of them, the result, by rows of metrics."""

    metrics: ClassVar[Rows]
    lengths_of: ClassVar[str] = ""  # "text": what has a length in words

    result: Any
    noun: str = "text"  # what an item is
    blank: int = 0  # number of blank items, which were left out
    seconds: float  # time to predict

    @abstractmethod
    def items(self) -> Iterator[Item]:
        """Yield the items."""

    @property
    def loss(self) -> float:
        """-log P of what is true, mean over all that is predicted; or the mean error of numbers."""
        found: float = self.result.loss
        return found

    def task_scores(self) -> list[Score]:
        """Return the scores of the result."""
        return scores_of(self.metrics, self.result)

    def outputs_and_references(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return what is predicted and what is true: labels, tuples of them if there can be several, or numbers."""
        found: tuple[Sequence[Any], Sequence[Any]] = self.result.outputs()
        return found

    def item_scores(self) -> ItemScores:
        """Return what each item adds to the scores."""
        items = list(self.items())
        return ItemScores(
            self.noun,
            [item.known for item in items],
            item_scores_of(self.metrics, self.result),
            [item[1:4] for item in items],
            [item.length for item in items] if self.lengths_of else (),
            self.lengths_of,
        )

    def timing(self, items: str, count: int, noun: str) -> str:
        """Return the time taken for items in words, and how many of something it was per second."""
        blank = f", {counted(self.blank, 'blank one')} left out" if self.blank else ""
        return f"{items} in {self.seconds:.1f} s{blank}, {count / self.seconds:,.0f} {noun}s/s"
