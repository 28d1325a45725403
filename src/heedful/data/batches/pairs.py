"""Batches of sentence pairs: packed source, packed decoder input, and the labels that the decoder predicts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.packed import IGNORED, Packed
from heedful.data.batch_layout import Lengths, StaticShape, layouts
from heedful.data.collate import gather, lengths_of
from heedful.data.epochs.loader import Collator, RowFeed
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.movable import Movable
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD


@dataclass(frozen=True, eq=False)
class PairBatch(Movable):
    """Pairs, packed: sources are sentences that end with `</s>`, or images; decoder inputs begin with `<s>`, labels end
    with `</s>`.
    """

    source: Any  # Packed, or Images where the encoder reads these
    target: Packed
    labels: Int[Tensor, "N"]
    sentences: int  # the real ones
    source_tokens: int  # the real ones, end markers included, or the patches of images
    target_tokens: int  # the labels that count

    def labels_of_rows(self) -> list[list[int]]:
        """Return what each real row is to predict: the tokens of the target."""
        return [row.tolist() for row in self.target.with_values(self.labels).split()[: self.sentences]]


def collate(
    stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
) -> PairBatch:
    """Make the batch of these sentences: ragged, filled up to a multiple of tokens, or of one static shape."""
    source, source_lengths = gather(stores, "source", indices)
    target, target_lengths = gather(stores, "target", indices)
    source_lengths, target_lengths = source_lengths + 1, target_lengths + 1  # each side has one marker
    source_layout, target_layout = layouts((source_lengths, target_lengths), static, multiple)
    return PairBatch(
        Packed(with_marker(source, source_lengths, source_layout.tokens, marker=END, at_end=True), source_layout),
        Packed(with_marker(target, target_lengths, target_layout.tokens, marker=BEGIN, at_end=False), target_layout),
        with_marker(target, target_lengths, target_layout.tokens, marker=END, at_end=True, rest=IGNORED),
        sentences=len(indices),
        source_tokens=int(source_lengths.sum()),
        target_tokens=int(target_lengths.sum()),
    )


class PairCollator:
    """Makes batches of pairs as they are in their stores, each side with one marker."""

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> Sequence[Counts]:
        """Return the tokens of some pairs, markers included."""
        return costs_of(stores, indices)

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> PairBatch:
        """Make the batch of these pairs: ragged, filled up to a multiple of tokens, or of one static shape."""
        return collate(stores, indices, static, multiple)


@dataclass(frozen=True, eq=False)
class PairFeed(RowFeed[PairBatch]):
    """Training pairs of one or several weighted stores."""

    collator: Collator[PairBatch] = field(default=PairCollator(), init=False)


def pair_costs(stores: Sequence[TokenStore]) -> tuple[Counts, Counts]:
    """Return the tokens of every pair's source and target, markers included, counted through all stores."""
    source, target = (
        np.concatenate([store.lengths(stream) + 1 for store in stores]).astype(np.int32)
        for stream in ("source", "target")
    )
    return source, target


def costs_of(stores: Sequence[TokenStore], indices: Indices) -> tuple[Counts, Counts]:
    """Return the `pair_costs` of some pairs, looked up in the stores' files: memory does not grow with the stores."""
    return lengths_of(stores, "source", indices) + 1, lengths_of(stores, "target", indices) + 1


def with_marker(
    pieces: NDArray[np.int64], lengths: Lengths, tokens: int, *, marker: int, at_end: bool, rest: int = PAD
) -> Int[Tensor, "N"]:
    """Put a marker at the end or the beginning of every sentence, and `rest` into the dummies after them."""
    values = np.full(tokens, rest, np.int64)
    values[: lengths.sum()] = marker
    values[np.arange(len(pieces)) + np.repeat(np.arange(len(lengths)) + (0 if at_end else 1), lengths - 1)] = pieces
    return torch.from_numpy(values)
