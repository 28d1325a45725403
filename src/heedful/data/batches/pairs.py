"""Batches of sentence pairs: packed source, packed decoder input, and the labels that the decoder predicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.packed import IGNORED, Layout, Packed
from heedful.data.collate import Lengths, Movable, StaticShape, gather, layouts, lengths_of
from heedful.data.epochs.plan import Counts, Indices
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


class PairCollator:
    """Makes batches of pairs as they are in their stores, each side with one marker."""

    noun: ClassVar = "pair"

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> tuple[Counts, Counts]:
        """Return the tokens of both sides of some pairs, markers included."""
        return lengths_of(stores, "source", indices) + 1, lengths_of(stores, "target", indices) + 1

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> PairBatch:
        """Make the batch of these pairs: ragged, filled up to a multiple of tokens, or of one static shape."""
        source, source_lengths = gather(stores, "source", indices)
        target, target_lengths = gather(stores, "target", indices)
        source_lengths, target_lengths = source_lengths + 1, target_lengths + 1  # each side has one marker
        source_layout, target_layout = layouts((source_lengths, target_lengths), static, multiple)
        return PairBatch(
            Packed(_with_marker(source, source_lengths, source_layout.tokens, marker=END, at_end=True), source_layout),
            *next_token_side(target, target_lengths, target_layout),
            sentences=len(indices),
            source_tokens=int(source_lengths.sum()),
            target_tokens=int(target_lengths.sum()),
        )


collate = PairCollator().batch


def pair_costs(stores: Sequence[TokenStore]) -> tuple[Counts, Counts]:
    """Return the tokens of every pair's source and target, markers included, counted through all stores."""
    return PairCollator().costs(stores, np.arange(sum(map(len, stores))))


def next_token_side(pieces: NDArray[np.int64], lengths: Lengths, layout: Layout) -> tuple[Packed, Int[Tensor, "N"]]:
    """Return the decoder inputs and the labels of sentences whose lengths count one marker."""
    inputs = _with_marker(pieces, lengths, layout.tokens, marker=BEGIN, at_end=False)
    return Packed(inputs, layout), _with_marker(pieces, lengths, layout.tokens, marker=END, at_end=True, rest=IGNORED)


def _with_marker(
    pieces: NDArray[np.int64], lengths: Lengths, tokens: int, *, marker: int, at_end: bool, rest: int = PAD
) -> Int[Tensor, "N"]:
    """Put a marker at the end or the beginning of every sentence, and `rest` into the dummies after them."""
    values = np.full(tokens, rest, np.int64)
    values[: lengths.sum()] = marker
    values[np.arange(len(pieces)) + np.repeat(np.arange(len(lengths)) + (0 if at_end else 1), lengths - 1)] = pieces
    return torch.from_numpy(values)
