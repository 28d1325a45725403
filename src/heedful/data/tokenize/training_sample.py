"""Which texts a tokenizer is trained on: all of them, or as many as bound time and memory, evenly over all corpora."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, eq=False)
class Sample:
    """`taken` of all `count` rows of texts, evenly spaced; all rows have the same number of texts."""

    rows: Callable[[], Iterable[tuple[str, ...]]]
    taken: int
    count: int
    texts: int = 1  # of each row

    @classmethod
    def of(
        cls, rows: Callable[[], Iterable[tuple[str, ...]]], most: int, texts: int = 1, count: int | None = None
    ) -> Self:
        """Take at most `most` texts in whole rows, one at least; rows are counted where `count` is not known."""
        count = sum(1 for _ in rows()) if count is None else count
        return cls(rows, min(count, max(1, most // texts)), count, texts)

    def __iter__(self) -> Iterator[str]:
        for number, row in enumerate(self.rows()):
            if (number + 1) * self.taken // self.count != number * self.taken // self.count:
                yield from row

    @property
    def description(self) -> str:
        """The number of texts out of how many, in words; empty where all are taken."""
        if self.taken == self.count:
            return ""
        return f", on {self.taken * self.texts:,} of {self.count * self.texts:,} texts"
