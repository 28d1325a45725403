"""Scores of label sequences: accuracy over words, and precision, recall and F1 over the spans that the labels mark.

    precision = right / predicted      recall = right / true      F1 = 2 right / (predicted + true)

A predicted span is right if a true one has the same words and the same type. Labels that break the rules of BIO or
BIOES are read as the program of the CoNLL shared tasks and seqeval's default mode read them: a span continues from one
word to the next if the first has B-X or I-X and the second I-X or E-X of the same type; any other label but O begins a
new span. This module does not need torch.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from heedful.base.label_schemes import OUTSIDE, split_label


class Span(NamedTuple):
    """Words of a sentence that belong together."""

    type: str
    start: int  # the index of the first word
    end: int  # the index after the last word


def spans_of(labels: Sequence[str]) -> list[Span]:
    """Return the spans that the labels of a sentence mark, in order."""
    spans: list[Span] = []
    before, type_before = OUTSIDE, ""
    for index, (prefix, type_) in enumerate(map(split_label, labels)):
        if before in "BI" and prefix in "IE" and type_ == type_before:
            spans[-1] = spans[-1]._replace(end=index + 1)
        elif prefix != OUTSIDE:
            spans.append(Span(type_, index, index + 1))
        before, type_before = prefix, type_
    return spans


@dataclass(frozen=True)
class SpanCounts:
    """How many spans were predicted, how many there are, and how many predicted ones are right."""

    right: int = 0
    predicted: int = 0
    true: int = 0

    @property
    def precision(self) -> float:
        """Right / predicted; 0 if no span was predicted."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Right / true; 0 if there is no span."""
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if there is neither a predicted nor a true span."""
        either = self.predicted + self.true
        return 2 * self.right / either if either else 0.0


@dataclass(frozen=True, eq=False)
class LabelResult:
    """The predicted and the true labels of the words of sentences."""

    predicted: Sequence[Sequence[str]]
    true: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        if list(map(len, self.predicted)) != list(map(len, self.true)):
            raise ValueError("predicted and true labels must be those of the same words")

    @property
    def spans(self) -> SpanCounts:
        """The counts over the spans of all types: their precision, recall and F1 are the micro averages."""
        counts = self.by_type.values()
        return SpanCounts(
            sum(one.right for one in counts), sum(one.predicted for one in counts), sum(one.true for one in counts)
        )

    @cached_property
    def by_type(self) -> dict[str, SpanCounts]:
        """The counts over the spans of each type, in alphabetical order."""
        right, said, there = Counter[str](), Counter[str](), Counter[str]()
        for found, wanted in self._spans():
            right.update(span.type for span in found & wanted)
            said.update(span.type for span in found)
            there.update(span.type for span in wanted)
        return {type_: SpanCounts(right[type_], said[type_], there[type_]) for type_ in sorted(said | there)}

    def by_sentence(self) -> list[SpanCounts]:
        """Return the counts over the spans of each sentence."""
        return [SpanCounts(len(found & wanted), len(found), len(wanted)) for found, wanted in self._spans()]

    def _spans(self) -> Iterator[tuple[set[Span], set[Span]]]:
        """Yield the predicted and the true spans of each sentence."""
        for labels, truth in zip(self.predicted, self.true, strict=True):
            yield set(spans_of(labels)), set(spans_of(truth))
