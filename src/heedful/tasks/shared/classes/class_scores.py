"""Scores of a classifier on inputs with labels, whatever they are."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from heedful.base.columns import one_column
from heedful.base.errors import counted
from heedful.metrics.classification import ClassificationResult
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.metrics.scores import ItemScore, ItemScores, Score, finite_scores, macro_f1_of_sums, mean_score
from heedful.tasks.shared.classes.class_tables import class_table, confusion_table
from heedful.tasks.shared.classes.classification import Classification


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassScores(ABC):
    """Scores of a classifier, and its classifications; subclasses hold what was classified."""

    noun: ClassVar[str]  # what is classified, in words

    found: tuple[Classification, ...]
    result: ClassificationResult
    loss: float  # -log P of the true labels, mean over all that is classified
    several: bool  # whether several labels may be true
    blank: int = 0  # number of blank texts, which were left out
    seconds: float  # time to classify
    own: Mapping[str, float] = field(default_factory=dict)  # scores by metrics of the caller's program

    def with_metrics(self, metrics: Metrics) -> Self:
        """Return the evaluation with the scores of these metrics as well."""
        return replace(self, own={**self.own, **score_outputs(metrics, *self.result.named(self.several))})

    @property
    def per_second(self) -> float:
        """Number of classifications per second."""
        return len(self.found) / self.seconds

    @abstractmethod
    def rows(self) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield the true labels of each input, and what shows it in columns."""

    def scores(self) -> list[Score]:
        """Return accuracy with its interval, F1 and loss."""
        result = self.result
        low, high = (100 * end for end in result.accuracy_interval)
        right = f"{result.right_texts:,} of {result.texts:,}; 95% interval {low:.1f}% to {high:.1f}%"
        micro = [Score("micro_f1", "micro F1", result.micro_f1, "percent")]
        return [
            Score("accuracy", "accuracy", result.accuracy, "percent", right),
            Score("f1", "macro F1", result.macro_f1, "percent"),
            *(micro if self.several else []),  # with one label per text it is the accuracy
            Score("loss", "loss", self.loss, "loss"),
            *(Score(name, name, value) for name, value in self.own.items()),
        ]

    def item_scores(self) -> ItemScores:
        """Return what each input adds to the scores."""
        result, rows = self.result, list(self.rows())
        right = (result.true == result.said).all(axis=1)
        return ItemScores(
            self.noun,
            [(line, tuple(sorted(labels))) for line, (labels, _) in zip(self.lines(), rows, strict=True)],
            (
                mean_score("accuracy", "accuracy", f"{self.noun}s whose labels are right", right.tolist),
                ItemScore("f1", "macro F1", "mean F1 of classes", macro_f1_of_sums, result.class_counts),
            ),
            [
                (" ".join(shown), ", ".join(labels), ", ".join(found.labels))
                for (labels, shown), found in zip(rows, self.found, strict=True)
            ],
            *self.lengths(),
        )

    def lines(self) -> Iterator[int]:
        """Yield the number of each input in its corpus, as far as it is known."""
        return iter(range(len(self.found)))

    def lengths(self) -> tuple[Sequence[int], str]:
        """Return the number of words of each input, and what has them; none where inputs do not consist of words."""
        return (), ""

    def remarks(self) -> list[str]:
        """Return the time taken, and tables of scores per class and of confusions."""
        blank = f", {counted(self.blank, 'blank one')} left out" if self.blank else ""
        speed = f"{self.per_second:,.0f} {self.noun}s/s"
        return [
            f"{counted(self.result.texts, self.noun)} in {self.seconds:.1f} s{blank}, {speed}",
            "",
            *class_table(self.result, self.noun),
            *([] if self.several else ["", *confusion_table(self.result, self.noun)]),
        ]

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        result = self.result
        confusion = {} if self.several else {"confusion": result.confusion.tolist()}  # rows: true; columns: said
        return {
            **finite_scores([score for score in self.scores() if score.name not in self.own]),
            **({"metrics": dict(self.own)} if self.own else {}),
            "accuracy_interval": result.accuracy_interval,
            f"{self.noun}s": result.texts,
            "blank": self.blank,
            "classes": [
                {"label": label, "precision": precision, "recall": recall, "f1": f1, f"{self.noun}s": int(count)}
                for label, precision, recall, f1, count in result.by_class()
            ],
            **confusion,
            f"{self.noun}s_per_second": round(self.per_second, 1),
            "seconds": round(self.seconds, 3),
        }

    def outputs(self) -> Iterator[str]:
        """Yield one line per input: its true labels, the predicted ones, their probabilities, and what shows it.

        Labels are in the order of classes in both columns, so that the columns can be compared.
        """
        order = self.result.labels.index
        for (labels, shown), found in zip(self.rows(), self.found, strict=True):
            said = sorted(found.labels, key=order)
            columns = [
                ",".join(sorted(labels, key=order)),
                ",".join(said),
                ",".join(f"{found.probabilities[label]:.4f}" for label in said),
                *shown,
            ]
            yield "\t".join(map(one_column, columns))
