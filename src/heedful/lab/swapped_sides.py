"""Which side a sentence belongs to, by words that stand on one side of a corpus far more often than on the other."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_MOST: Final = 300  # words a side
_TIMES: Final = 4  # as often as on the other side
_SHARE: Final = 0.002  # of the sentences must have a word for it to count
_ENOUGH: Final = 2  # foreign words that make a side look foreign


@dataclass(frozen=True)
class SideWords:
    """The typical words of each side: in languages that write spaces, mostly its function words."""

    source: frozenset[str]
    target: frozenset[str]

    @classmethod
    def learn(cls, pairs: Iterable[tuple[str, str]]) -> "SideWords":
        """Count in how many sentences each word stands."""
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
    return frozenset(word for _, word in sorted(typical)[:_MOST])  # equals by the alphabet: the same in every process
