"""Batches of texts to classify: `<s> text </s>` or `<s> text </s> second </s>`, cut where they are too long."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.packed import IGNORED, Nested, Packed
from heedful.data.batch_layout import Lengths, StaticShape, layouts
from heedful.data.collate import gather, lengths_of, places_of
from heedful.data.epochs.loader import Collator, RowFeed
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.movable import Movable
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD

Cut = Literal["end", "start", "middle"]


@dataclass(frozen=True, eq=False)
class TextBatch(Movable):
    """Texts and their classes. Dummies have the class IGNORED."""

    text: Packed | Nested
    labels: Int[Tensor, "B"] | Float[Tensor, "B C"]  # the class of each text, or 1 for each of several
    sentences: int  # the real texts
    tokens: int  # the real ones, markers included

    @property
    def inputs(self) -> Packed | Nested:
        """What a classifier reads."""
        return self.text

    def labels_of_rows(self) -> list[list[int]]:
        """Return what each real row is to predict: its classes."""
        rows = self.labels[: self.sentences]
        return [row.nonzero().flatten().tolist() if row.dim() else [int(row)] for row in rows]


AnyTextCollator = Collator[TextBatch]


@dataclass(frozen=True)
class TextCollator:
    """Makes batches of texts, single or in pairs, each as one sequence."""

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
        (layout,) = layouts([lengths], static, multiple)
        starts = np.cumsum(lengths) - lengths
        values = np.full(layout.tokens, PAD, np.int64)
        values[: lengths.sum()] = END  # wherever no piece is put
        values[starts] = BEGIN
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


class TextFeed(RowFeed[TextBatch]):
    """Training texts of one or several weighted stores."""

    noun = "text"


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


def labels_of(stores: Sequence[TokenStore], indices: Indices, rows: int, classes: int) -> Tensor:
    """Return the class of each text, or 1 for each of its several `classes`; then IGNORED up to `rows` rows."""
    if "label" not in stores[0].streams:
        return torch.full((rows,), IGNORED)
    values, lengths = gather(stores, "label", indices)
    if not classes:
        labels = np.full(rows, IGNORED, np.int64)
        labels[: len(indices)] = values
        return torch.from_numpy(labels)
    marks = np.full((rows, classes), IGNORED, np.float32)
    marks[: len(indices)] = 0
    marks[np.repeat(np.arange(len(indices)), lengths), values] = 1
    return torch.from_numpy(marks)
