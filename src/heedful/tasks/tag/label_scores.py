"""The predicted and the true labels of words, with the scores of both: by label, and by the spans that labels mark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heedful.base.label_schemes import mark_spans
from heedful.metrics.classification import ClassificationResult, mark_classes
from heedful.metrics.edits import Floats
from heedful.metrics.label_spans import LabelResult, SpanCounts
from heedful.metrics.rows import ItemCounts
from heedful.metrics.scores import f1_of_sums, macro_f1_of_sums, percent_of_sums

Numbers = Sequence[Sequence[int]]  # of the labels of each sentence
Names = Sequence[tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class LabelScores:
    """Labels of sentences by name, the words as a classification, and the spans if labels mark spans."""

    said: Names
    true: Names
    words: ClassificationResult  # each word as one text
    spans: LabelResult | None
    loss: float = math.nan  # -log P of the true labels, mean over words

    @classmethod
    def of(cls, labels: tuple[str, ...], said: Numbers, true: Numbers, loss: float = math.nan) -> "LabelScores":
        """Compare labels by number with the true ones."""
        found, wanted = ([tuple(labels[label] for label in sentence) for sentence in one] for one in (said, true))
        spans = LabelResult(found, wanted) if mark_spans(labels) else None
        predicted, right = (
            mark_classes([[label] for part in one for label in part], len(labels)) for one in (said, true)
        )
        return cls(found, wanted, ClassificationResult(labels, right, predicted), spans, loss)

    def outputs(self) -> tuple[Names, Names]:
        """Return the predicted and the true labels of each sentence."""
        return self.said, self.true

    @property
    def marks_spans(self) -> bool:
        """Whether labels mark spans, as BIO and BIOES do."""
        return self.spans is not None

    @property
    def found(self) -> SpanCounts:
        """Counts over spans; there are none where labels do not mark spans."""
        return SpanCounts() if self.spans is None else self.spans.spans

    @property
    def f1(self) -> float:
        """F1 over spans; for labels that do not mark spans, the mean F1 over labels."""
        return self.words.macro_f1 if self.spans is None else self.found.f1

    def span_items(self) -> ItemCounts:
        """Return what each sentence adds to the F1 over spans."""
        assert self.spans is not None
        counts = [(one.right, one.predicted, one.true) for one in self.spans.by_sentence()]
        return ItemCounts("spans with the right words and type", f1_of_sums, lambda: np.array(counts, dtype=np.float64))

    def label_items(self) -> ItemCounts:
        """Return what each sentence adds to the mean F1 over labels."""
        return ItemCounts("mean F1 of labels", macro_f1_of_sums, lambda: self._sums(self.words.class_counts()))

    def accuracy_items(self) -> ItemCounts:
        """Return what each sentence adds to the accuracy over words."""
        right_W = self.words.right_rows
        counts = np.stack([right_W, np.ones_like(right_W)], axis=1).astype(np.float64)
        return ItemCounts("words", percent_of_sums, lambda: self._sums(counts))

    def _sums(self, counts: Floats) -> Floats:
        """Add up the counts of the words of each sentence, none of which is empty."""
        starts = np.cumsum([0, *map(len, self.true)])[:-1]
        return np.add.reduceat(counts, starts, axis=0)
