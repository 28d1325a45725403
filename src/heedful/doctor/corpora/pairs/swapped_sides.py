"""Detects swapped sides by words that occur on one side of a corpus far more often than on the other."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_MOST: Final = 300  # words per side
_TIMES: Final = 4  # times as often as on the other side
_SHARE: Final = 0.002  # minimum fraction of the sentences that contain the word
_ENOUGH: Final = 2  # words of the other side that make a sentence look foreign


@dataclass(frozen=True)
class SideWords:
    """The typical words of each side: mostly function words, in languages with spaces."""

    source: frozenset[str]
    target: frozenset[str]

    @classmethod
    def learn(cls, pairs: Iterable[tuple[str, str]]) -> "SideWords":
        """Find the typical words by counting the sentences that contain each word."""
        source: Counter[str] = Counter()
        target: Counter[str] = Counter()
        sentences = 0
        for left, right in pairs:
            source.update(set(left.lower().split()))
            target.update(set(right.lower().split()))
            sentences += 1
        least = max(3, round(_SHARE * sentences))
        return cls(_typical(source, target, least), _typical(target, source, least))

    def looks_swapped(self, source: str, target: str) -> bool:
        """Whether each side has words of the other and none of its own."""
        left = source.lower().split()
        if not self.source.isdisjoint(left):
            return False
        right = target.lower().split()
        if not self.target.isdisjoint(right):
            return False
        return len(self.target.intersection(left)) >= _ENOUGH and len(self.source.intersection(right)) >= _ENOUGH


def _typical(own: Counter[str], other: Counter[str], least: int) -> frozenset[str]:
    typical = [(-count, word) for word, count in own.items() if count >= max(least, _TIMES * other[word])]
    return frozenset(
        word for _, word in sorted(typical)[:_MOST]
    )  # ties in alphabetical order: the same in every process
