"""The labels of the words of a sentence."""

from dataclasses import dataclass
from typing import NamedTuple

from heedful.base.label_schemes import mark_spans
from heedful.metrics.label_spans import spans_of


class TaggedSpan(NamedTuple):
    """Words that labels such as B-PER and I-PER mark as one span."""

    type: str  # what follows the prefix of the labels
    start: int  # index of the first word
    end: int  # index after the last word
    text: str  # the words, with spaces between them


@dataclass(frozen=True)
class Tagging:
    """The words of a sentence and the label of each; empty for a blank one."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]  # probability of each word's label

    def spans(self) -> list[TaggedSpan]:
        """Return the spans that labels of BIO or BIOES mark, in order; other labels mark words, not spans."""
        if not mark_spans(self.labels):
            return []
        return [
            TaggedSpan(span.type, span.start, span.end, " ".join(self.words[span.start : span.end]))
            for span in spans_of(self.labels)
        ]
