"""Groups sentences by length and words by frequency: scores of a whole corpus hide where a system is better.

After compare-mt (Neubig et al. 2019).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from heedful.metrics.edits import Floats

Words = Sequence[str]
Rows = np.ndarray[tuple[int], np.dtype[np.intp]]


@dataclass(frozen=True)
class Span:
    """The numbers from `low` to `high`, both included; without `high`, all from `low` on."""

    low: int
    high: int | None

    @property
    def label(self) -> str:
        """The span as text."""
        if self.high is None:
            return f"{self.low:,} or more"
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


LENGTHS: Final = (Span(0, 5), Span(6, 10), Span(11, 15), Span(16, 20), Span(21, 30), Span(31, 50), Span(51, None))
FREQUENCIES: Final = (Span(0, 0), Span(1, 1), Span(2, 9), Span(10, 99), Span(100, 999), Span(1000, None))


def span_index(number: int, spans: Sequence[Span]) -> int:
    """Return the index of the span that contains a number; spans are ascending and without gaps."""
    return sum(span.low <= number for span in spans[1:])


def rows_by_length(lengths: Sequence[int]) -> list[tuple[Span, Rows]]:
    """Return the indices of the items in each span of lengths; spans without items are left out."""
    indices = np.array([span_index(length, LENGTHS) for length in lengths])
    members = ((span, np.flatnonzero(indices == number)) for number, span in enumerate(LENGTHS))
    return [(span, rows) for span, rows in members if len(rows)]


def count_words(sentences: Iterable[Words]) -> Counter[str]:
    """Count each word."""
    return Counter(chain.from_iterable(sentences))


def words_by_frequency(sentences: Iterable[Words], counts: Mapping[str, int]) -> list[int]:
    """Count the words of the sentences in each span of frequencies."""
    found: Counter[int] = Counter()
    for word, number in count_words(sentences).items():  # each word once: a text may repeat it a million times
        found[span_index(counts.get(word, 0), FREQUENCIES)] += number
    return [found[index] for index in range(len(FREQUENCIES))]


def f1_by_frequency(outputs: Sequence[Words], references: Sequence[Words], counts: Mapping[str, int]) -> Floats:
    """F1 = 2 matches / (words of the outputs + words of the references), in percent, over the words of each span.

    A word of an output matches if its reference contains it, at most as often as it occurs there.
    """
    common = [
        list((Counter(output) & Counter(reference)).elements())
        for output, reference in zip(outputs, references, strict=True)
    ]
    matches = np.array(words_by_frequency(common, counts), dtype=np.float64)
    both = np.array(words_by_frequency([*outputs, *references], counts), dtype=np.float64)
    return 100 * np.divide(2 * matches, both, out=np.zeros_like(matches), where=both > 0)
