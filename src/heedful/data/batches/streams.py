"""One long text as parallel streams, cut into segments that follow each other: for models that carry a state.

text       a b c d e f g h i        two streams, segments of three
inputs     a b c | d        labels     b c d | e
           e f g | h                   f g h | i
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.batch_layout import StaticShape
from heedful.data.epochs.plan import Indices
from heedful.data.movable import Movable
from heedful.errors import UserError
from heedful.packed import Layout, Packed


@dataclass(frozen=True, eq=False)
class StreamBatch(Movable):
    """A segment of every stream, packed: row b continues where row b of the segment before ended."""

    inputs: Packed
    labels: Int[Tensor, "N"]  # the token after each input
    fresh: Bool[Tensor, "B"]  # rows that begin here, with nothing before them

    @property
    def tokens(self) -> int:
        """The number of labels."""
        return self.inputs.layout.tokens


@dataclass(frozen=True, eq=False)
class Streams:
    """A text in `rows` streams of nearly equal length, cut every `length` tokens. A feed of `data.epochs.loader`.

    Every token but the first is predicted once in an epoch. Where the rows do not divide the text, the first ones are
    one token longer; only the last segment is shorter, and a row may have nothing left for it.
    """

    text: NDArray[np.integer]
    starts: NDArray[np.int64]  # of each stream in the text, and where the last one ends
    length: int
    pin: bool = False

    @classmethod
    def of(cls, text: Sequence[int] | NDArray[np.integer], rows: int, length: int) -> "Streams":
        """Cut a text of token ids, which may be mapped from a file."""
        tokens = np.asarray(text)
        predicted = len(tokens) - 1
        if predicted < rows:
            raise UserError(
                f"A text of {len(tokens):,} tokens is too short for {rows:,} streams: it must have {rows + 1:,} tokens "
                "at least, or there must be fewer streams."
            )
        shares = predicted // rows + (np.arange(rows) < predicted % rows)
        return cls(tokens, np.concatenate(([0], np.cumsum(shares))).astype(np.int64), length)

    @property
    def rows(self) -> int:
        """The number of streams."""
        return len(self.starts) - 1

    def __len__(self) -> int:
        return -(-int(self.starts[1]) // self.length)  # the first stream is the longest

    def segment(self, index: int) -> StreamBatch:
        """Return segment number `index` of every stream, from 0."""
        begins = self.starts[:-1] + index * self.length
        lengths = np.minimum(self.starts[1:] - begins, self.length)
        places = np.concatenate([np.arange(first, first + size) for first, size in zip(begins, lengths, strict=True)])
        return StreamBatch(
            Packed(torch.from_numpy(self.text[places].astype(np.int64)), Layout.of(lengths.tolist())),
            torch.from_numpy(self.text[places + 1].astype(np.int64)),
            torch.full((self.rows,), index == 0),
        )

    def plan(self, epoch: int) -> Iterator[Indices]:
        """Return the segments of an epoch, always in the order of the text."""
        return (np.array([index]) for index in range(len(self)))

    def batch(self, indices: Indices) -> StreamBatch:
        """Make the micro-batch of one segment."""
        made = self.segment(int(indices[0]))
        return made.pin_memory() if self.pin else made

    @property
    def static(self) -> StaticShape | None:
        """None: the last segment is shorter than the others."""
        return None

    def placed(self, static: StaticShape | None, pin: bool) -> Self:
        """Return the feed for a device; its batches are never of one shape."""
        return replace(self, pin=pin)
