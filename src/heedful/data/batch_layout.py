"""Where the sentences of a batch begin: ragged as they are, or in the one static shape that compilers want.

A batch has one or several sides (source and target), whose sentences belong together by their number. What fills a
side up is dummies after the real sentences, the same number on all sides, so that dummies face dummies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.base.packed import Layout

CPU_MULTIPLE: Final = 64  # of tokens in a CPU's batches: see `ragged_layouts`

Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class StaticShape:
    """The one shape of every batch, as compilers and CUDA graphs want it.

    Each side has exactly `tokens` tokens in exactly `sentences` sentences, none longer than `bound`. After the real
    sentences come dummies that fill the tokens, then empty ones that fill the sentences. An even shape is rows of
    `bound` tokens: a sentence fills its row with tokens that count in no loss, and attention needs no offsets.
    """

    tokens: int
    sentences: int
    bound: int
    even: bool = False

    @classmethod
    def around(cls, tokens: int, max_sentences: int, longest: int) -> "StaticShape":
        """Return the shape that holds any plan with these bounds; `longest` counts the markers."""
        return cls(tokens, max_sentences + -(-tokens // longest), longest)

    @classmethod
    def rows(cls, tokens: int, length: int) -> "StaticShape":
        """Return the even shape of as many rows of this length as fit into the tokens."""
        return cls(tokens // length * length, tokens // length, length, even=True)

    @property
    def max_sentences(self) -> int:
        """The most real sentences of a batch: the rest are for the dummies of the worst case."""
        return self.sentences if self.even else self.sentences - -(-self.tokens // self.bound)


def most_sentences(most: int | None, static: StaticShape | None) -> int | None:
    """Return the most sentences of a batch: no more than the static shape, where there is one, has room for."""
    if static is None:
        return most
    return min(most or static.max_sentences, static.max_sentences)


def layouts(sides: Sequence[Lengths], static: StaticShape | None, multiple: int) -> list[Layout]:
    """Lay out the sides of a batch, whose lengths count the markers."""
    return ragged_layouts(sides, multiple) if static is None else static_layouts(sides, static)


def ragged_layouts(sides: Sequence[Lengths], multiple: int) -> list[Layout]:
    """Lay out the tokens there are, up to the next multiple; dummies are no longer than the longest sentence.

    A CPU's bfloat16 kernels are compiled for every number of tokens, and a few numbers come back where thousands would
    not.
    """
    bounds = [max(1, int(lengths.max(initial=0))) for lengths in sides]
    tails = [-int(lengths.sum()) % multiple for lengths in sides]
    dummies = max(-(-tail // bound) for tail, bound in zip(tails, bounds, strict=True))
    return [
        layout_of(np.concatenate((lengths, _dealt(tail, dummies))), bound)
        for lengths, tail, bound in zip(sides, tails, bounds, strict=True)
    ]


def static_layouts(sides: Sequence[Lengths], static: StaticShape) -> list[Layout]:
    """Lay out any sentences in one shape; each side's tail is dealt out evenly."""
    count, tails = len(sides[0]), [static.tokens - int(lengths.sum()) for lengths in sides]
    dummies = -(-max(tails) // static.bound)
    spare = static.sentences - count - dummies
    longest = max(int(lengths.max(initial=0)) for lengths in sides)
    if min(*tails, spare) < 0 or longest > static.bound:
        raise ValueError(
            f"{count} sentences of {' and '.join(str(int(lengths.sum())) for lengths in sides)} tokens, the longest of "
            f"{longest}, do not fit {static}, which has room for {static.max_sentences}"
        )
    empty = np.zeros(spare, np.int64)
    return [
        layout_of(np.concatenate((lengths, _dealt(tail, dummies), empty)), static.bound)
        for lengths, tail in zip(sides, tails, strict=True)
    ]


def layout_of(lengths: Lengths, bound: int) -> Layout:
    """Lay out sentences of these lengths, none longer than `bound`, end to end."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    positions = np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1].astype(np.int64), lengths)
    return Layout(torch.from_numpy(offsets), torch.from_numpy(positions), bound)


def _dealt(total: int, shares: int) -> Lengths:
    """Deal out a total in nearly equal shares, the larger ones first."""
    if not shares:
        return np.zeros(0, np.int64)
    return total // shares + (np.arange(shares) < total % shares).astype(np.int64)
