"""Evaluation of a classifier on texts with labels."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.columns import one_column
from heedful.data.corpora.texts import Text, classes_of
from heedful.errors import UserError, counted
from heedful.metrics.classification import ClassificationResult, class_loss, decide_classes, mark_classes
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.metrics.scores import Score, finite_scores
from heedful.tasks.classify.class_tables import class_table, confusion_table
from heedful.tasks.classify.classification import Classification
from heedful.tasks.shared.streaming import CHUNK, chunks


class Classifies(Protocol):
    """What is asked of a classifier: see `TextClassifier`."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes."""
        ...

    @property
    def several(self) -> bool:
        """Whether a text may have several labels, or none."""
        ...

    def formed(self, text: Text) -> Text:
        """Return a text as the model reads it."""
        ...

    def scores(self, texts: Sequence[Text]) -> Float[Tensor, "B C"]:
        """Return the scores of every class for normalised texts."""
        ...

    def classified(self, scores_BC: Float[Tensor, "B C"]) -> list[Classification]:
        """Turn scores into classifications."""
        ...


@dataclass(frozen=True, eq=False)
class ClassEvaluation:
    """Scores of a classifier on texts, and its classifications."""

    texts: tuple[Text, ...]  # texts as read, with the true labels; none is blank
    found: tuple[Classification, ...]
    result: ClassificationResult
    loss: float  # -log P of the true labels, mean over texts
    several: bool  # whether a text may have several labels
    blank: int  # number of blank texts, which were left out
    seconds: float  # time to classify
    own: Mapping[str, float] = field(default_factory=dict)  # scores by metrics of the caller's program

    def with_metrics(self, metrics: Metrics) -> Self:
        """Return the evaluation with the scores of these metrics as well."""
        return replace(self, own={**self.own, **score_outputs(metrics, *self.result.named(self.several))})

    @property
    def texts_per_second(self) -> float:
        """Number of texts classified per second."""
        return len(self.texts) / self.seconds

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

    def remarks(self) -> list[str]:
        """Return the time taken, and tables of scores per class and of confusions."""
        blank = f", {counted(self.blank, 'blank one')} left out" if self.blank else ""
        speed = f"{self.texts_per_second:,.0f} texts/s"
        return [
            f"{counted(self.result.texts, 'text')} in {self.seconds:.1f} s{blank}, {speed}",
            "",
            *class_table(self.result),
            *([] if self.several else ["", *confusion_table(self.result)]),
        ]

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        result = self.result
        confusion = {} if self.several else {"confusion": result.confusion.tolist()}  # rows: true; columns: said
        return {
            **finite_scores([score for score in self.scores() if score.name not in self.own]),
            **({"metrics": dict(self.own)} if self.own else {}),
            "accuracy_interval": result.accuracy_interval,
            "texts": result.texts,
            "blank": self.blank,
            "classes": [
                {"label": label, "precision": precision, "recall": recall, "f1": f1, "texts": int(count)}
                for label, precision, recall, f1, count in result.by_class()
            ],
            **confusion,
            "texts_per_second": round(self.texts_per_second, 1),
            "seconds": round(self.seconds, 3),
        }

    def outputs(self) -> Iterator[str]:
        """Yield one line per text: its true labels, the predicted ones, their probabilities, and the text.

        Labels are in the order of classes in both columns, so that the columns can be compared.
        """
        order = self.result.labels.index
        for text, found in zip(self.texts, self.found, strict=True):
            said = sorted(found.labels, key=order)
            columns = [
                ",".join(sorted(text.labels, key=order)),
                ",".join(said),
                ",".join(f"{found.probabilities[label]:.4f}" for label in said),
                text.text,
                *([] if text.second is None else [text.second]),
            ]
            yield "\t".join(map(one_column, columns))


def evaluate_classifier(
    classifier: Classifies,
    texts: Sequence[Text],
    *,
    name: str = "texts",
    progress: Callable[[int], None] = lambda ready: None,
) -> ClassEvaluation:
    """Classify texts and compare with their labels; blank ones are left out, as in training.

    `name` is the corpus's name in messages; `progress` is called with the number of texts finished since the last call.
    """
    read = tuple(text for text in map(classifier.formed, texts) if not text.blank)
    if not read:
        raise UserError(f"{name} has no text to classify.")
    true = mark_classes(classes_of(read, classifier.labels, name), len(classifier.labels))
    began, parts = time.perf_counter(), []
    for part in chunks(read, CHUNK):
        parts.append(classifier.scores(part))
        progress(len(part))
    scores_BC = torch.cat(parts)
    seconds = time.perf_counter() - began
    return ClassEvaluation(
        read,
        tuple(classifier.classified(scores_BC)),
        ClassificationResult(classifier.labels, true, decide_classes(scores_BC, classifier.several)),
        class_loss(scores_BC, true, classifier.several),
        classifier.several,
        len(texts) - len(read),
        seconds,
    )
