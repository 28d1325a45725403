"""Batches of pairs of texts that are read one by one: `<s> text </s>`, `<s> second </s>`, and the next pair."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from heedful.base.packed import Layout, Packed
from heedful.data.batch_layout import Lengths, StaticShape, layouts
from heedful.data.batches.texts import Cut, TextBatch, kept_pieces, labels_of
from heedful.data.collate import gather, lengths_of, places_of
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD

_STREAMS: Final = ("text", "second")
_MARKERS: Final = 2  # of each text


@dataclass(frozen=True)
class PairedTextCollator:
    """Makes batches of pairs whose texts are sequences of their own, in turns. Each is cut where it is too long."""

    max_length: int  # the most tokens of a text, markers included
    cut: Cut = "end"
    classes: int = 0  # the number of classes where a pair has several labels, else 0

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> tuple[Counts]:
        """Return the tokens of some pairs, both texts together, markers included."""
        return (self._lengths(stores, indices).reshape(-1, 2).sum(axis=1),)

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> TextBatch:
        """Make the batch of these pairs: ragged, filled up to a multiple of tokens, or of one static shape."""
        lengths = self._lengths(stores, indices)
        layout = _in_pairs(*layouts([lengths], static, multiple))
        starts = np.cumsum(lengths) - lengths
        values = np.full(layout.tokens, PAD, np.int64)
        values[: lengths.sum()] = END  # wherever no piece is put
        values[starts] = BEGIN
        for number, stream in enumerate(_STREAMS):
            kept = lengths[number::2] - _MARKERS
            pieces, whole = gather(stores, stream, indices)
            values[places_of(starts[number::2] + 1, kept)] = pieces[kept_pieces(whole, kept, self.cut)]
        labels = labels_of(stores, indices, layout.sentences // 2, self.classes)
        return TextBatch(Packed(torch.from_numpy(values), layout), labels, len(indices), int(lengths.sum()))

    def _lengths(self, stores: Sequence[TokenStore], indices: Indices) -> Lengths:
        """Return the lengths of texts and seconds in turns, markers included."""
        room = self.max_length - _MARKERS
        sides = [np.minimum(lengths_of(stores, stream, indices), room) + _MARKERS for stream in _STREAMS]
        return np.stack(sides, axis=1).reshape(-1)


def _in_pairs(layout: Layout) -> Layout:
    """Add an empty text where the dummies after the pairs have made their number odd."""
    if layout.sentences % 2 == 0:
        return layout
    return replace(layout, offsets=torch.cat((layout.offsets, layout.offsets[-1:])))
