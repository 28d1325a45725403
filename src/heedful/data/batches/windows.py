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
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.errors import UserError
from heedful.base.packed import IGNORED, Packed
from heedful.data.batch_layout import StaticShape, layout_of, layouts, most_sentences
from heedful.data.collate import places_of
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
from heedful.data.movable import Movable
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
        return self._micro_batches(cut, random)

    def _micro_batches(self, cut: Sequence[Windows], random: np.random.Generator) -> Iterator[PlannedWindows]:
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
