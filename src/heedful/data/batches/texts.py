"""Batches of texts to classify: `<s> text </s>` or `<s> text </s> second </s>`, cut where they are too long."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.base.packed import Layout, Nested, Packed
from heedful.data.batch_layout import Lengths, StaticShape
from heedful.data.batches.labelled import LabelledBatch, labels_of
from heedful.data.collate import gather, lengths_of, marked_sequences, places_of
from heedful.data.epochs.loader import Collator
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.token_store import TokenStore

Cut = Literal["end", "start", "middle"]


TextBatch = LabelledBatch[Packed | Nested]
AnyTextCollator = Collator[TextBatch]


@dataclass(frozen=True)
class TextCollator:
    """Makes batches of texts, single or in pairs, each as one sequence."""

    noun: ClassVar = "text"

    max_length: int  # the most tokens, markers included
    cut: Cut = "end"  # where a longer one loses tokens
    paired: bool = False  # whether there are second texts
    classes: int = 0  # the number of classes where a text has several labels, else 0

    @property
    def markers(self) -> int:
        """The number of markers of a text, or of a pair."""
        return 3 if self.paired else 2

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> tuple[Counts]:
        """Return the tokens of some texts as they are read, markers included."""
        return (np.sum(self._kept(stores, indices), axis=0) + self.markers,)

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> TextBatch:
        """Make the batch of these texts: ragged, filled up to a multiple of tokens, or of one static shape."""
        kept = self._kept(stores, indices)
        lengths = np.sum(kept, axis=0) + self.markers
        layout, starts, values = marked_sequences(lengths, static, multiple)
        segments = np.zeros(layout.tokens, np.int64)
        for number, (stream, count) in enumerate(zip(self._streams, kept, strict=True)):
            begins = starts + 1 + number * (kept[0] + 1)
            pieces, whole = gather(stores, stream, indices)
            values[places_of(begins, count)] = pieces[kept_pieces(whole, count, self.cut)]
            segments[places_of(begins, count + 1)] = number
        text = Packed(torch.from_numpy(values), layout, torch.from_numpy(segments) if self.paired else None)
        labels = labels_of(stores, indices, layout.sentences, self.classes)
        return TextBatch(text, labels, len(indices), int(lengths.sum()))

    @property
    def _streams(self) -> tuple[str, ...]:
        return ("text", "second") if self.paired else ("text",)

    def _kept(self, stores: Sequence[TokenStore], indices: Indices) -> list[Lengths]:
        """Return how many tokens are kept of each text, and of each second one: the longer of a pair loses first."""
        room = self.max_length - self.markers
        lengths = [lengths_of(stores, stream, indices) for stream in self._streams]
        if not self.paired:
            return [np.minimum(lengths[0], room)]
        first = np.minimum(lengths[0], np.maximum(room - lengths[1], room - room // 2))
        return [first, np.minimum(lengths[1], room - first)]


# --- parts of a batch -------------------------------------------------------------------------------------------------


def kept_pieces(lengths: Lengths, kept: Lengths, cut: Cut) -> NDArray[np.bool_]:
    """Return which tokens of texts of these lengths stay where `kept` of each are kept."""
    place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    match cut:
        case "end":
            before, after = kept, np.zeros_like(kept)
        case "start":
            before, after = np.zeros_like(kept), kept
        case "middle":
            before, after = kept - kept // 2, kept // 2
    return (place < np.repeat(before, lengths)) | (place >= np.repeat(lengths - after, lengths))


_STREAMS: Final = ("text", "second")
_MARKERS: Final = 2  # of each text


@dataclass(frozen=True)
class PairedTextCollator:
    """Makes batches of pairs whose texts are sequences of their own, in turns. Each is cut where it is too long."""

    noun: ClassVar = "text"

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
        layout, starts, values = marked_sequences(lengths, static, multiple)
        layout = _in_pairs(layout)
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
