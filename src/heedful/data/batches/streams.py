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

from heedful.base.errors import UserError
from heedful.base.packed import IGNORED, Packed
from heedful.data.batch_layout import StaticShape, layout_of
from heedful.data.collate import places_of
from heedful.data.epochs.plan import Indices, generator
from heedful.data.movable import Movable
from heedful.data.tokenize.tokenizer import BEGIN


@dataclass(frozen=True, eq=False)
class StreamBatch(Movable):
    """A segment of every stream, packed: row b continues where row b of the segment before ended."""

    inputs: Packed
    labels: Int[Tensor, "N"]  # the token after each input; IGNORED where that is the `<s>` of another document
    fresh: Bool[Tensor, "B"]  # rows that begin here, with nothing before them
    target_tokens: int  # the labels that count

    @property
    def tokens(self) -> int:
        """The number of labels that count."""
        return self.target_tokens

    @property
    def sentences(self) -> int:
        """The number of streams."""
        return self.inputs.layout.sentences

    def labels_of_rows(self) -> list[list[int]]:
        """Return what each row is to predict: the token after each of its tokens."""
        return [row.tolist() for row in self.inputs.with_values(self.labels).split()]


@dataclass(frozen=True, eq=False)
class PlannedSegment:
    """A segment of every stream before it is made."""

    index: int  # from 0
    shift: int  # by which the streams of its epoch begin later
    lengths: Indices  # in every stream


@dataclass(frozen=True, eq=False)
class Streams:
    """A text in `rows` streams of nearly equal length, cut every `length` tokens. A feed of `data.epochs.loader`.

    Every token but the first, and but the `<s>` of later documents, is predicted once in an epoch. Where the rows do
    not divide the text, the first ones are one token longer; only the last segment is shorter, and a row may have
    nothing left for it.

    With a `seed` the streams of an epoch begin at a random place of the text, and one of them reads on from the end of
    the text at its beginning, so that cuts fall elsewhere in every epoch: a pure function of (text, seed, epoch).

    In the form for a GPU (`static`) all segments have one shape: an epoch leaves out what does not fill the last one,
    which is another part of the text in every epoch.
    """

    text: NDArray[np.integer]
    starts: NDArray[np.int64]  # of each stream in the text, and where the last one ends
    length: int
    seed: int | None = None
    static: StaticShape | None = None
    pin: bool = False

    @classmethod
    def of(
        cls, text: Sequence[int] | NDArray[np.integer], rows: int, length: int, seed: int | None = None
    ) -> "Streams":
        """Cut a text of token ids, which may be mapped from a file."""
        tokens = np.asarray(text)
        predicted = len(tokens) - 1
        if predicted < rows:
            raise UserError(
                f"A text of {len(tokens):,} tokens is too short for {rows:,} streams: it must have {rows + 1:,} tokens "
                "at least, or there must be fewer streams (`data.batch_tokens` divided by `data.max_length`)."
            )
        shares = predicted // rows + (np.arange(rows) < predicted % rows)
        return cls(tokens, np.concatenate(([0], np.cumsum(shares))).astype(np.int64), length, seed)

    @property
    def rows(self) -> int:
        """The number of streams."""
        return len(self.starts) - 1

    def __len__(self) -> int:
        longest = int(self.starts[1])  # the first stream is the longest
        return -(-longest // self.length) if self.static is None else longest // self.length

    def segment(self, index: int, shift: int = 0) -> StreamBatch:
        """Return segment number `index` of every stream, from 0, of streams that begin `shift` tokens later."""
        begins, lengths = self.starts[:-1] + index * self.length, self._lengths(index)
        places = (places_of(begins, lengths) + shift) % (len(self.text) - 1)
        labels = self.text[places + 1].astype(np.int64)
        labels[labels == BEGIN] = IGNORED  # that another document begins is not predicted, nor ever generated
        return StreamBatch(
            Packed(torch.from_numpy(self.text[places].astype(np.int64)), layout_of(lengths, int(lengths.max()))),
            torch.from_numpy(labels),
            torch.full((self.rows,), index == 0),
            int(np.count_nonzero(labels != IGNORED)),
        )

    def _lengths(self, index: int) -> Indices:
        return np.minimum(np.diff(self.starts) - index * self.length, self.length)

    def plan(self, epoch: int) -> Iterator[PlannedSegment]:
        """Return the segments of an epoch, always in the order of the text."""
        shift = 0 if self.seed is None else int(generator(self.seed, epoch).integers(len(self.text) - 1))
        return (PlannedSegment(index, shift, self._lengths(index)) for index in range(len(self)))

    def batch(self, planned: PlannedSegment) -> StreamBatch:
        """Make the micro-batch of one segment."""
        made = self.segment(planned.index, planned.shift)
        return made.pin_memory() if self.pin else made

    def placed(self, static: StaticShape | None, pin: bool) -> Self:
        """Return the feed for a device; a text that does not fill one segment is never of one shape."""
        share = (len(self.text) - 1) // self.rows
        if static is None or share < self.length:
            return replace(self, pin=pin)
        return replace(self, starts=share * np.arange(self.rows + 1), static=static, pin=pin)
