"""Scores of a classifier on texts, images or questions about images with labels."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from heedful.base.columns import align_columns, one_column
from heedful.base.errors import counted
from heedful.data.corpora.images import ImageQuestion, LabelledImage
from heedful.data.corpora.texts import Text
from heedful.metrics.classification import ClassificationResult, score_table
from heedful.tasks.classify.classification import Classification
from heedful.tasks.classify.metrics import METRICS
from heedful.tasks.shared.evaluation import Item, ItemEvaluation

_WIDEST: Final = 10  # maximum classes of a full matrix; with more, this number of most frequent mistakes is shown


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassScores(ItemEvaluation):
    """Scores of a classifier, and its classifications; subclasses hold what was classified."""

    metrics = METRICS

    found: tuple[Classification, ...]
    result: ClassificationResult

    @property
    def per_second(self) -> float:
        """Number of classifications per second."""
        return len(self.found) / self.seconds

    @abstractmethod
    def rows(self) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield the true labels of each input, and what shows it in columns."""

    def lines(self) -> Iterator[int]:
        """Yield the number of each input in its corpus, as far as it is known."""
        return iter(range(len(self.found)))

    def items(self) -> Iterator[Item]:
        """Yield the inputs with their labels."""
        for line, (labels, shown), found in zip(self.lines(), self.rows(), self.found, strict=True):
            known, said, length = (line, tuple(sorted(labels))), ", ".join(found.labels), len(" ".join(shown).split())
            yield Item(known, " ".join(shown), ", ".join(labels), said, length)

    def remarks(self) -> list[str]:
        """Return the time taken, and tables of scores per class and of confusions."""
        return [
            self.timing(counted(self.result.texts, self.noun), self.result.texts, self.noun),
            "",
            *score_table("class", self.result.by_class(), f"{self.noun}s"),
            *([] if self.result.several else ["", *confusion_table(self.result)]),
        ]

    def facts(self) -> dict[str, object]:
        """Return sizes, the scores of each class, confusions and times."""
        result, nouns = self.result, f"{self.noun}s"
        confusion = {} if result.several else {"confusion": result.confusion.tolist()}  # rows: true; columns: predicted
        return {
            "accuracy_interval": result.accuracy_interval,
            nouns: result.texts,
            "blank": self.blank,
            "classes": result.facts_by_class(nouns),
            **confusion,
            f"{nouns}_per_second": round(self.per_second, 1),
            "seconds": round(self.seconds, 3),
        }

    def outputs(self) -> Iterator[str]:
        """Yield one line per input: its true labels, the predicted ones, their probabilities, and what shows it.

        Labels are in the order of classes in both columns, so that the columns can be compared.
        """
        order = {label: number for number, label in enumerate(self.result.labels)}
        for (labels, shown), found in zip(self.rows(), self.found, strict=True):
            said = sorted(found.labels, key=order.__getitem__)
            columns = [
                ",".join(sorted(labels, key=lambda label: order.get(label, len(order)))),
                ",".join(said),
                ",".join(f"{found.probabilities[label]:.4f}" for label in said),
                *shown,
            ]
            yield "\t".join(map(one_column, columns))


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassEvaluation(ClassScores):
    """Scores of a classifier on texts, and its classifications."""

    lengths_of = "text"

    texts: tuple[Text, ...]  # texts as read, with the true labels; none is blank

    def lines(self) -> Iterator[int]:
        """Yield the line of each text in its file; 0 where there is no file."""
        return (text.line for text in self.texts)

    def rows(self) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield the true labels of each text, and the text, or the two of a pair."""
        return ((text.labels, text.sides) for text in self.texts)


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageEvaluation(ClassScores):
    """Scores of a classifier on images, and its classifications."""

    images: tuple[LabelledImage, ...]  # with the true labels

    def rows(self) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield the true labels of each image, and the name of its file, or its place in an array."""
        return ((image.labels, (image.where,)) for image in self.images)


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageAnswerEvaluation(ClassScores):
    """Scores of a model on questions about images, and its answers."""

    questions: tuple[ImageQuestion, ...]  # with the true answers
    images: tuple[str, ...]  # the file of each question's image, or its place in a corpus

    def outputs_and_references(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the predicted and the true answers, also those that the model cannot give."""
        return [found.label for found in self.found], [asked.answer for asked in self.questions]

    def by_kind(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of right answers and of questions of each kind; none where kinds are not known."""
        counts: dict[str, tuple[int, int]] = {}
        for asked, found in zip(self.questions, self.found, strict=True):
            right, count = counts.get(asked.kind, (0, 0))
            counts[asked.kind] = right + (found.label == asked.answer), count + 1
        return {kind: counts[kind] for kind in sorted(counts) if kind}

    @property
    def unknown(self) -> int:
        """Number of questions whose answer is not one that the model can give."""
        return sum(asked.answer not in self.result.labels for asked in self.questions)

    def rows(self) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield the true answer to each question, the question, and its image."""
        for asked, image in zip(self.questions, self.images, strict=True):
            yield (asked.answer,), (asked.question, image)

    def remarks(self) -> list[str]:
        """Return the time taken, and the accuracy by kind of question, or tables of answers where it is not known."""
        first, *tables = super().remarks()
        lost = [f"{counted(self.unknown, 'answer')} that training never has, which count as wrong"]
        by_kind = self.by_kind()
        rows = [
            [one_column(kind), f"{100 * right / count:.2f}%", f"{count:,}"] for kind, (right, count) in by_kind.items()
        ]
        kinds = ["", *align_columns([["kind", "accuracy", "questions"], *rows])]
        return [first, *(lost if self.unknown else []), *(kinds if by_kind else tables)]

    def facts(self) -> dict[str, object]:
        """Return what every classifier has, the number of unknown answers, and the accuracy by kind of question."""
        kinds = {
            kind: {"accuracy": right / count, "questions": count} for kind, (right, count) in self.by_kind().items()
        }
        return {**super().facts(), "unknown_answers": self.unknown, **({"kinds": kinds} if kinds else {})}


def confusion_table(result: ClassificationResult) -> list[str]:
    """Format the confusion matrix, one line per class, or the most frequent mistakes if there are many classes."""
    labels, counts = [one_column(label) for label in result.labels], result.confusion
    if len(labels) <= _WIDEST:
        rows = [[label, *(f"{count:,}" for count in row)] for label, row in zip(labels, counts, strict=True)]
        return align_columns([["true \\ predicted", *labels], *rows])
    wrong = counts * (1 - np.eye(len(labels), dtype=np.int64))
    most_frequent = np.argsort(-wrong, axis=None, kind="stable")[:_WIDEST]
    pairs = [divmod(int(index), len(labels)) for index in most_frequent]
    rows = [[labels[true], labels[said], f"{wrong[true, said]:,}"] for true, said in pairs if wrong[true, said]]
    return align_columns([["true", "predicted", f"{result.noun}s"], *rows], left=2) if rows else []
