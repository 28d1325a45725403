"""The predicted and the true labels of words, with the scores of both: by label, and by the spans that labels mark."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heedful.base.columns import align_columns, one_column
from heedful.base.label_schemes import mark_spans
from heedful.metrics.classification import ClassificationResult
from heedful.metrics.edits import Floats
from heedful.metrics.label_spans import LabelResult, SpanCounts
from heedful.metrics.scores import ItemScore, f1_of_sums, macro_f1_of_sums, percent_of_sums

Numbers = Sequence[Sequence[int]]  # of the labels of each sentence
Names = Sequence[tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class LabelScores:
    """Labels of sentences by name, the words as a classification, and the spans if labels mark spans."""

    said: Names
    true: Names
    words: ClassificationResult  # each word as one text
    spans: LabelResult | None

    @classmethod
    def of(cls, labels: tuple[str, ...], said: Numbers, true: Numbers) -> "LabelScores":
        """Compare labels by number with the true ones."""
        found, wanted = ([tuple(labels[label] for label in sentence) for sentence in one] for one in (said, true))
        spans = LabelResult(found, wanted) if mark_spans(labels) else None
        marked = (_marks([label for sentence in one for label in sentence], len(labels)) for one in (true, said))
        return cls(found, wanted, ClassificationResult(labels, *marked), spans)

    @property
    def f1(self) -> float:
        """F1 over spans; for labels that do not mark spans, the mean F1 over labels."""
        return self.words.macro_f1 if self.spans is None else self.spans.spans.f1

    def item_scores(self) -> tuple[ItemScore, ...]:
        """Return what each sentence adds to F1 and accuracy."""
        f1 = (
            ItemScore("f1", "macro F1", "mean F1 of labels", macro_f1_of_sums, self._counts_of_labels)
            if self.spans is None
            else ItemScore("f1", "F1", "spans with the right words and type", f1_of_sums, self._counts_of_spans)
        )
        return f1, ItemScore("accuracy", "accuracy", "words", percent_of_sums, self._counts_of_words)

    def _counts_of_spans(self) -> Floats:
        assert self.spans is not None
        return np.array([(one.right, one.predicted, one.true) for one in self.spans.by_sentence()], dtype=np.float64)

    def _counts_of_labels(self) -> Floats:
        return self._sums(self.words.class_counts())

    def _counts_of_words(self) -> Floats:
        right_W = (self.words.true == self.words.said).all(axis=1)
        return self._sums(np.stack([right_W, np.ones_like(right_W)], axis=1).astype(np.float64))

    def _sums(self, counts: Floats) -> Floats:
        """Add up the counts of the words of each sentence, none of which is empty."""
        starts = np.cumsum([0, *map(len, self.true)])[:-1]
        return np.add.reduceat(counts, starts, axis=0)


def _marks(labels: Sequence[int], count: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    marks = np.zeros((len(labels), count), np.bool_)
    marks[np.arange(len(labels)), labels] = True
    return marks


def label_table(result: ClassificationResult) -> list[str]:
    """Format precision, recall and F1, one line per label."""
    rows = [
        [one_column(label), *(f"{100 * share:.2f}%" for share in shares), f"{count:,}"]
        for label, *shares, count in result.by_class()
    ]
    return align_columns([["label", "precision", "recall", "F1", "words"], *rows])


def span_table(result: LabelResult) -> list[str]:
    """Format precision, recall and F1, one line per type of span."""
    rows = [[one_column(name), *_shares(counts), f"{counts.true:,}"] for name, counts in result.by_type.items()]
    return align_columns([["type", "precision", "recall", "F1", "spans"], *rows])


def _shares(counts: SpanCounts) -> list[str]:
    return [f"{100 * share:.2f}%" for share in (counts.precision, counts.recall, counts.f1)]
