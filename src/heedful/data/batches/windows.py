"""Windows of running text: what a language model reads at once, and the next token of each of its tokens.

text       <s> a b c d </s> <s> e f </s>             windows of three tokens
closed     <s> a b | c d | <s> e f                   a window ends where its document ends
open       <s> a b | c d </s> | <s> e f              documents are one text

Where the first cut of a text falls is drawn anew in every epoch, so that a token does not always have the same tokens
before it. All of it is a pure function of (stores, weights, seed, epoch).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.errors import UserError
from heedful.base.packed import IGNORED, Packed
from heedful.data.collate import Movable, StaticShape, layout_of, layouts, most_sentences, places_of
from heedful.data.epochs.plan import (
    POOL,
    Counts,
    Indices,
    batches_by_length,
    batches_of_pool,
    generator,
    pools,
    shuffled,
)
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, PAD

Borders = Literal["closed", "open"]


@dataclass(frozen=True, eq=False)
class WindowBatch(Movable):
    """Windows and the token after each of their tokens. What fills up a batch has the label IGNORED."""

    inputs: Packed
    labels: Int[Tensor, "N"]
    sentences: int  # the real windows
    target_tokens: int  # the real labels

    @property
    def tokens(self) -> int:
        """The number of real tokens."""
        return self.target_tokens

    def labels_of_rows(self) -> list[list[int]]:
        """Return what each real row is to predict: the token after each of its tokens."""
        return [row.tolist() for row in self.inputs.with_values(self.labels).split()[: self.sentences]]


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of one store: the index of the first token of each, and its length."""

    begins: Indices
    lengths: Indices

    def __len__(self) -> int:
        return len(self.begins)


def text_bounds(store: TokenStore, borders: Borders) -> tuple[Indices, Indices]:
    """Return where each text begins and ends: every document, or all of them as one."""
    offsets = store.streams["text"].offsets
    return (offsets[:-1], offsets[1:]) if borders == "closed" else (offsets[:1], offsets[-1:])


def cut_windows(store: TokenStore, length: int, borders: Borders, random: np.random.Generator) -> Windows:
    """Cut a store into windows of at most `length` tokens, each of which has a next token."""
    starts, ends = text_bounds(store, borders)
    predicted = ends - starts - 1
    first, long = np.minimum(predicted, length), np.flatnonzero(predicted > length)
    first[long] = random.integers(1, length + 1, len(long))
    further = -(-(predicted - first) // length)
    counts = further + 1
    number = places_of(np.zeros(len(counts), np.int64), counts)  # of each window in its text
    owner = np.repeat(np.arange(len(counts)), counts)
    begins = starts[owner] + np.where(number > 0, first[owner] + (number - 1) * length, 0)
    lengths = np.minimum(np.where(number > 0, length, first[owner]), ends[owner] - 1 - begins)
    some = lengths > 0
    return Windows(begins[some], lengths[some])


@dataclass(frozen=True, eq=False)
class PlannedWindows:
    """The windows of a micro-batch, by the number of their store."""

    stores: Indices
    begins: Indices
    lengths: Indices


@dataclass(frozen=True, eq=False)
class WindowFeed:
    """Windows of the texts of one or several weighted stores, in random order."""

    stores: Sequence[TokenStore]
    weights: Sequence[float]
    seed: int
    batch_tokens: int
    max_length: int
    borders: Borders
    max_sentences: int | None = None
    static: StaticShape | None = None
    multiple: int = 1  # of tokens, where the shape is not static
    pin: bool = False

    def __post_init__(self) -> None:
        longest = max((len(store.streams["text"].values) - 1 for store in self.stores), default=0)
        if self.borders == "open" and longest < self.max_length:
            raise UserError(
                f"The texts have {longest + 1:,} tokens, which do not fill one window of `data.max_length` "
                f"({self.max_length:,}) tokens: give more text, or lower it."
            )

    def plan(self, epoch: int) -> Iterator[PlannedWindows]:
        """Return the micro-batches of an epoch, in order; the same ones whenever it is called."""
        random = generator(self.seed, epoch)
        cut = [cut_windows(store, self.max_length, self.borders, random) for store in self.stores]
        sizes = [len(windows) for windows in cut]
        begins = np.concatenate([windows.begins for windows in cut])
        lengths = np.concatenate([windows.lengths for windows in cut])
        owners = np.repeat(np.arange(len(cut)), sizes)

        def costs(windows: Indices) -> tuple[Counts]:
            return (lengths[windows],)

        order = shuffled(sizes, self.weights, random, "window")
        for pool in pools(order, costs, POOL * self.batch_tokens):
            for rows in batches_of_pool(
                pool, costs(pool), random, self.batch_tokens, most_sentences(self.max_sentences, self.static)
            ):
                yield PlannedWindows(owners[rows], begins[rows], lengths[rows])

    def batch(self, planned: PlannedWindows) -> WindowBatch:
        """Make one micro-batch."""
        made = collate_windows(self.stores, planned, self.static, self.multiple)
        return made.pin_memory() if self.pin else made

    def placed(self, static: StaticShape | None, pin: bool) -> Self:
        """Return the feed for a device."""
        return replace(self, static=static, pin=pin)


def collate_windows(
    stores: Sequence[TokenStore], planned: PlannedWindows, static: StaticShape | None = None, multiple: int = 1
) -> WindowBatch:
    """Make the batch of these windows: ragged, filled up to a multiple of tokens, or of one static shape."""
    lengths = planned.lengths
    if static is not None and static.even:
        layout = layout_of(np.full(static.sentences, static.bound, np.int64), static.bound)
        starts = np.arange(len(lengths)) * static.bound
    else:
        (layout,) = layouts([lengths], static, multiple)
        starts = np.cumsum(lengths) - lengths
    values, labels = np.full(layout.tokens, PAD, np.int64), np.full(layout.tokens, IGNORED, np.int64)
    for number, store in enumerate(stores):
        mine = np.flatnonzero(planned.stores == number)
        text: NDArray[np.unsignedinteger] = store.streams["text"].values
        places = places_of(planned.begins[mine], lengths[mine])
        here = places_of(starts[mine], lengths[mine])
        values[here], labels[here] = text[places], text[places + 1]
    labels[labels == BEGIN] = IGNORED  # that another text begins is not predicted, nor ever generated
    tokens = int(np.count_nonzero(labels != IGNORED))
    return WindowBatch(Packed(torch.from_numpy(values), layout), torch.from_numpy(labels), len(lengths), tokens)


@dataclass(frozen=True, eq=False)
class SlidingWindows:
    """Windows of `length` tokens that begin every `stride` tokens of a text.

    The first window of a text predicts all of its tokens, the others those that no window before them predicted.
    """

    stores: Sequence[TokenStore]
    length: int
    stride: int
    borders: Borders
    batch_tokens: int
    multiple: int = 1

    def plan(self) -> list[PlannedWindows]:
        """Return all windows in batches of similar length."""
        cut = [self._cut(store) for store in self.stores]
        owners = np.repeat(np.arange(len(cut)), [len(begins) for begins, _ in cut])
        begins, lengths = (np.concatenate([part[side] for part in cut]) for side in (0, 1))
        return [
            PlannedWindows(owners[rows], begins[rows], lengths[rows])
            for rows in batches_by_length((lengths,), batch_tokens=self.batch_tokens)
        ]

    def batch(self, planned: PlannedWindows) -> WindowBatch:
        """Make one batch, in which a token that another window predicts has no label."""
        made = collate_windows(self.stores, planned, multiple=self.multiple)
        if self.stride == self.length:
            return made
        repeated = np.where(self._continues(planned), np.minimum(self.length - self.stride, planned.lengths), 0)
        starts = np.cumsum(planned.lengths) - planned.lengths
        made.labels[torch.from_numpy(places_of(starts, repeated))] = IGNORED
        return WindowBatch(made.inputs, made.labels, made.sentences, int((made.labels != IGNORED).sum()))

    def _cut(self, store: TokenStore) -> tuple[Indices, Indices]:
        starts, ends = text_bounds(store, self.borders)
        predicted = ends - starts - 1
        counts = np.where(predicted > 0, 1 + -(-np.maximum(predicted - self.length, 0) // self.stride), 0)
        begins = np.repeat(starts, counts) + places_of(np.zeros(len(counts), np.int64), counts) * self.stride
        return begins, np.minimum(self.length, np.repeat(ends, counts) - 1 - begins)

    def _continues(self, planned: PlannedWindows) -> NDArray[np.bool_]:
        """Return which windows are not the first of their text."""
        later = np.ones(len(planned.begins), np.bool_)
        for number, store in enumerate(self.stores):
            mine = planned.stores == number
            later[mine] = ~np.isin(planned.begins[mine], text_bounds(store, self.borders)[0])
        return later


# --- one long text as parallel streams, cut into segments that follow each other: for models that carry a state -------
#
#     text       a b c d e f g h i        two streams, segments of three
#     inputs     a b c | d        labels     b c d | e
#                e f g | h                   f g h | i


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
