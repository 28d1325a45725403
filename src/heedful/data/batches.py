"""Batches of sentence pairs: packed source, packed decoder input, and the labels that the decoder is to predict."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.plan import Indices
from heedful.data.store import TokenStore
from heedful.data.tokenizer import BEGIN, END, PAD
from heedful.packed import IGNORED, Layout, Packed

CPU_MULTIPLE: Final = 64  # of tokens in a CPU's batches: see `collate`

_Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class StaticShape:
    """The one shape of every batch, as compilers and CUDA graphs want it.

    Each side has exactly `tokens` tokens in exactly `sentences` sentences, none longer than `bound`. After the real
    sentences come dummies that fill the tokens, then empty ones that fill the sentences.
    """

    tokens: int
    sentences: int
    bound: int

    @classmethod
    def around(cls, tokens: int, max_sentences: int, longest: int) -> "StaticShape":
        """The shape that holds any plan with these bounds; `longest` counts the end marker."""
        return cls(tokens, max_sentences + -(-tokens // longest), longest)

    @property
    def max_sentences(self) -> int:
        """How many real sentences a batch may have: the rest are for the dummies of the worst case."""
        return self.sentences - -(-self.tokens // self.bound)


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Sentence pairs, packed: sources end with `</s>`, decoder inputs begin with `<s>`, labels end with `</s>`."""

    source: Packed
    target: Packed
    labels: Int[Tensor, "N"]
    sentences: int  # the real ones
    source_tokens: int  # the real ones, end markers included
    target_tokens: int  # the labels that count

    def to(self, device: torch.device, non_blocking: bool = False) -> "PairBatch":
        """Copy to a device."""
        return self._with(
            self.source.to(device, non_blocking),
            self.target.to(device, non_blocking),
            self.labels.to(device, non_blocking=non_blocking),
        )

    def copy_(self, other: "PairBatch") -> None:
        """Take over the tokens and layouts of another batch of the same shape; the counts stay."""
        for mine, theirs in zip(self._tensors(), other._tensors(), strict=True):
            mine.copy_(theirs, non_blocking=True)
        for side in (self.source, self.target):
            side.layout.forget()

    def _tensors(self) -> tuple[Tensor, ...]:
        sides = ((side.values, side.layout.offsets, side.layout.positions) for side in (self.source, self.target))
        return (*(tensor for side in sides for tensor in side), self.labels)

    def pin_memory(self) -> "PairBatch":
        """Copy to page-locked memory, from which a GPU fetches while it computes."""
        return self._with(_pinned(self.source), _pinned(self.target), self.labels.pin_memory())

    def _with(self, source: Packed, target: Packed, labels: Tensor) -> "PairBatch":
        return PairBatch(source, target, labels, self.sentences, self.source_tokens, self.target_tokens)


def collate(
    stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
) -> PairBatch:
    """Make the batch of these sentences: ragged, or of one static shape.

    A ragged batch is filled up with dummies to a multiple of so many tokens on each side: a CPU's bfloat16 kernels are
    compiled for every number of tokens, and a few numbers come back where thousands would not.
    """
    source, source_lengths = _gather(stores, "source", indices)
    target, target_lengths = _gather(stores, "target", indices)
    source_lengths, target_lengths = source_lengths + 1, target_lengths + 1  # each side has one marker
    if static is None:
        source_layout, target_layout = _ragged(source_lengths, target_lengths, multiple)
    else:
        source_layout, target_layout = _static(source_lengths, target_lengths, static)
    return PairBatch(
        Packed(_fill(source, source_lengths, source_layout.tokens, marker=END, at_end=True), source_layout),
        Packed(_fill(target, target_lengths, target_layout.tokens, marker=BEGIN, at_end=False), target_layout),
        _fill(target, target_lengths, target_layout.tokens, marker=END, at_end=True, rest=IGNORED),
        sentences=len(indices),
        source_tokens=int(source_lengths.sum()),
        target_tokens=int(target_lengths.sum()),
    )


def _gather(stores: Sequence[TokenStore], stream: str, indices: Indices) -> tuple[NDArray[np.int64], _Lengths]:
    """The pieces of sentences from several stores, in the order of the indices."""
    if len(stores) == 1:
        values, lengths = stores[0].gather(stream, indices)
        return values.astype(np.int64), lengths
    ends = np.cumsum([len(store) for store in stores])
    owner = np.searchsorted(ends, indices, side="right")
    lengths = np.zeros(len(indices), np.int64)
    parts: list[tuple[NDArray[np.intp], NDArray[np.unsignedinteger]]] = []
    for i, store in enumerate(stores):
        mine = np.flatnonzero(owner == i)
        values, lengths[mine] = store.gather(stream, indices[mine] - (ends[i] - len(store)))
        parts.append((mine, values))
    gathered = np.empty(lengths.sum(), np.int64)
    starts = np.cumsum(lengths) - lengths
    for mine, values in parts:
        gathered[_places(starts[mine], lengths[mine])] = values
    return gathered, lengths


def _places(starts: _Lengths, lengths: _Lengths) -> NDArray[np.int64]:
    """The flat places of runs that begin at `starts`."""
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())


def _fill(
    pieces: NDArray[np.int64], lengths: _Lengths, tokens: int, *, marker: int, at_end: bool, rest: int = PAD
) -> Int[Tensor, "N"]:
    """Put a marker at the end or the beginning of every sentence, and `rest` into the dummies after them."""
    values = np.full(tokens, rest, np.int64)
    values[: lengths.sum()] = marker
    values[np.arange(len(pieces)) + np.repeat(np.arange(len(lengths)) + (0 if at_end else 1), lengths - 1)] = pieces
    return torch.from_numpy(values)


def _ragged(source: _Lengths, target: _Lengths, multiple: int) -> tuple[Layout, Layout]:
    """As many tokens as there are, up to the next multiple; dummies are no longer than the longest sentence."""
    bounds = [max(1, int(lengths.max(initial=0))) for lengths in (source, target)]
    tails = [-int(lengths.sum()) % multiple for lengths in (source, target)]
    dummies = max(-(-tail // bound) for tail, bound in zip(tails, bounds, strict=True))
    source_layout, target_layout = (
        _layout(np.concatenate((lengths, _dealt(tail, dummies))), bound)
        for lengths, tail, bound in zip((source, target), tails, bounds, strict=True)
    )
    return source_layout, target_layout


def _static(source: _Lengths, target: _Lengths, static: StaticShape) -> tuple[Layout, Layout]:
    source_tail, target_tail = static.tokens - int(source.sum()), static.tokens - int(target.sum())
    # The same number of dummies on both sides, each side's tail dealt out evenly, so that dummies face dummies.
    dummies = -(-max(source_tail, target_tail) // static.bound)
    spare = static.sentences - len(source) - dummies
    longest = max(int(source.max(initial=0)), int(target.max(initial=0)))
    if min(source_tail, target_tail, spare) < 0 or longest > static.bound:
        raise ValueError(
            f"{len(source)} sentences of {int(source.sum())} and {int(target.sum())} tokens, the longest of {longest}, "
            f"do not fit {static}, which has room for {static.max_sentences}"
        )
    empty = np.zeros(spare, np.int64)
    return (
        _layout(np.concatenate((source, _dealt(source_tail, dummies), empty)), static.bound),
        _layout(np.concatenate((target, _dealt(target_tail, dummies), empty)), static.bound),
    )


def _dealt(total: int, shares: int) -> _Lengths:
    """Deal out a total in nearly equal shares, the larger ones first."""
    if not shares:
        return np.zeros(0, np.int64)
    return total // shares + (np.arange(shares) < total % shares).astype(np.int64)


def _layout(lengths: _Lengths, bound: int) -> Layout:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    positions = np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1].astype(np.int64), lengths)
    return Layout(torch.from_numpy(offsets), torch.from_numpy(positions), bound)


def _pinned(packed: Packed) -> Packed:
    layout = packed.layout
    return Packed(
        packed.values.pin_memory(), Layout(layout.offsets.pin_memory(), layout.positions.pin_memory(), layout.bound)
    )
