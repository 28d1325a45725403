"""Batches of sentence pairs: packed source, packed decoder input, and the labels that the decoder is to predict."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.batch_layout import Lengths, StaticShape, layouts
from heedful.data.epochs.plan import Indices
from heedful.data.movable import Movable
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD
from heedful.packed import IGNORED, Packed


@dataclass(frozen=True, eq=False)
class PairBatch(Movable):
    """Sentence pairs, packed: sources end with `</s>`, decoder inputs begin with `<s>`, labels end with `</s>`."""

    source: Packed
    target: Packed
    labels: Int[Tensor, "N"]
    sentences: int  # the real ones
    source_tokens: int  # the real ones, end markers included
    target_tokens: int  # the labels that count


def collate(
    stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
) -> PairBatch:
    """Make the batch of these sentences: ragged, filled up to a multiple of tokens, or of one static shape."""
    source, source_lengths = gather(stores, "source", indices)
    target, target_lengths = gather(stores, "target", indices)
    source_lengths, target_lengths = source_lengths + 1, target_lengths + 1  # each side has one marker
    source_layout, target_layout = layouts((source_lengths, target_lengths), static, multiple)
    return PairBatch(
        Packed(_fill(source, source_lengths, source_layout.tokens, marker=END, at_end=True), source_layout),
        Packed(_fill(target, target_lengths, target_layout.tokens, marker=BEGIN, at_end=False), target_layout),
        _fill(target, target_lengths, target_layout.tokens, marker=END, at_end=True, rest=IGNORED),
        sentences=len(indices),
        source_tokens=int(source_lengths.sum()),
        target_tokens=int(target_lengths.sum()),
    )


def gather(stores: Sequence[TokenStore], stream: str, indices: Indices) -> tuple[NDArray[np.int64], Lengths]:
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
        gathered[places_of(starts[mine], lengths[mine])] = values
    return gathered, lengths


def lengths_of(stores: Sequence[TokenStore], stream: str, indices: Indices) -> Lengths:
    """The pieces of some rows, counted through all stores."""
    ends = np.cumsum([len(store) for store in stores])
    owners, lengths = np.searchsorted(ends, indices, side="right"), np.empty(len(indices), np.int64)
    for number, store in enumerate(stores):
        mine = np.flatnonzero(owners == number)
        lengths[mine] = store.lengths(stream, indices[mine] - (ends[number] - len(store)))
    return lengths


def places_of(starts: Lengths, lengths: Lengths) -> NDArray[np.int64]:
    """The flat places of runs that begin at `starts`."""
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())


def _fill(
    pieces: NDArray[np.int64], lengths: Lengths, tokens: int, *, marker: int, at_end: bool, rest: int = PAD
) -> Int[Tensor, "N"]:
    """Put a marker at the end or the beginning of every sentence, and `rest` into the dummies after them."""
    values = np.full(tokens, rest, np.int64)
    values[: lengths.sum()] = marker
    values[np.arange(len(pieces)) + np.repeat(np.arange(len(lengths)) + (0 if at_end else 1), lengths - 1)] = pieces
    return torch.from_numpy(values)
