"""Which texts a tokenizer is trained on: all of them, or as many as bound time and memory, evenly over all corpora."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.pairs import BuiltinCorpus
from heedful.config.data import Data
from heedful.data.corpora.files import Row
from heedful.data.corpora.pairs import Pair, read_pairs
from heedful.data.text_form import TextForm

Side = Literal["both", "source", "target"]


@dataclass(frozen=True)
class Sample:
    """`taken` of all `pairs` of the training corpora, at equal distances."""

    data: Data
    side: Side
    taken: int
    pairs: int

    @classmethod
    def of(cls, data: Data, side: Side, most: int) -> "Sample":
        """Take at most `most` texts; a pair has two where both sides are asked for."""
        pairs = sum(_count(corpus, data.folder) for corpus in data.train)
        return cls(data, side, min(pairs, max(1, most // _texts_a_pair(side))), pairs)

    def __iter__(self) -> Iterator[str]:
        for source, target in evenly(_all_pairs(self.data.train, self.data), self.taken, self.pairs):
            if self.side != "target":
                yield source
            if self.side != "source":
                yield target

    @property
    def description(self) -> str:
        """The number of texts out of how many, in words; empty where all are taken."""
        return described(*(count * _texts_a_pair(self.side) for count in (self.taken, self.pairs)))


def evenly(rows: Iterable[Row], taken: int, count: int) -> Iterator[Row]:
    """Yield `taken` of `count` rows, at equal distances."""
    return (row for number, row in enumerate(rows) if (number + 1) * taken // count != number * taken // count)


def described(taken: int, count: int) -> str:
    """Say how many texts out of how many; nothing where all are taken."""
    return "" if taken == count else f", on {taken:,} of {count:,} texts"


def _texts_a_pair(side: Side) -> int:
    return 2 if side == "both" else 1


def _all_pairs(corpora: Sequence[AnyCorpus], data: Data) -> Iterator[Pair]:
    for corpus in corpora:
        yield from read_pairs(corpus, data.folder, TextForm.of(data))


def _count(corpus: AnyCorpus, folder: str) -> int:
    """Count the pairs of a corpus, which is read only where its table does not tell."""
    if corpus.lines:
        first, last = map(int, corpus.lines.split("-"))
        return max(0, last - first + 1)
    if isinstance(corpus, BuiltinCorpus):
        return corpus.count
    return sum(1 for _ in read_pairs(corpus, folder))
