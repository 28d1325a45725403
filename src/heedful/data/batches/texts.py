"""Batches of rows to classify or to rate, and of texts: `<s> text </s>`, `<s> text </s> second </s>`, or documents."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.packed import IGNORED, Layout, Nested, Packed
from heedful.data.collate import (
    Lengths,
    Movable,
    StaticShape,
    gather,
    layout_of,
    lengths_of,
    marked_sequences,
    places_of,
    rows_by_store,
)
from heedful.data.epochs.loader import Collator
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.prepare.letters import pack_letters
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import END

Inputs = TypeVar("Inputs")
Cut = Literal["end", "start", "middle"]
_ANY_LENGTH: Final = 1 << 40  # tokens


@dataclass(frozen=True, eq=False)
class LabelledBatch(Movable, Generic[Inputs]):
    """Inputs and their labels; the label IGNORED is one that is not known, or that of a dummy which fills up a batch.

    Labels are the class of each row, or 1 for each of its several classes, or a number, which is never IGNORED but NaN.
    """

    inputs: Inputs  # what a network reads
    labels: Int[Tensor, "B"] | Float[Tensor, "B C"] | Float[Tensor, "B"]
    sentences: int  # the real rows
    tokens: int  # the real ones, markers included

    def labels_of_rows(self) -> list[list[int]]:
        """Return what each real row is to predict: its classes."""
        rows = self.labels[: self.sentences]
        return [row.nonzero().flatten().tolist() if row.dim() else [int(row)] for row in rows]


def labels_of(stores: Sequence[TokenStore], indices: Indices, rows: int, classes: int) -> Tensor:
    """Return the class of each row, or 1 for each of its several `classes`; then IGNORED up to `rows` rows.

    Where stores have numbers, return those.
    """
    if "number" in stores[0].streams:
        return numbers_of(stores, indices, rows)
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


def numbers_of(stores: Sequence[TokenStore], indices: Indices, rows: int) -> Float[Tensor, "rows"]:
    """Return the number of each row; NaN where the stores have none, and up to `rows` rows."""
    numbers = np.full(rows, np.nan, np.float32)
    if "number" in stores[0].streams:
        for store, mine, own in rows_by_store(stores, indices):
            numbers[mine] = store.streams["number"].values[own]  # one per row
    return torch.from_numpy(numbers)


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


# --- documents: words in sentences in documents, each sentence with an end marker ------------------------------------


@dataclass(frozen=True)
class DocumentCollator:
    """Makes batches of documents as sentences. A document that is too long loses words of its sentences."""

    noun: ClassVar = "text"

    max_length: int  # the most words of a document
    max_sentence: int  # the most words of a sentence: a longer one continues in another
    cut: Cut = "end"
    classes: int = 0  # the number of classes where a document has several labels, else 0
    letters: bool = False  # whether the letters of words are read

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> tuple[Counts]:
        """Return the tokens of some documents as they are read, end markers included."""
        outline = self._outline(stores, indices)
        return (outline.words + outline.sentences,)

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> TextBatch:
        """Make the batch of these documents: always ragged, as the number of sentences is, and not filled up."""
        outline = self._outline(stores, indices)
        pieces, _ = gather(stores, "text", indices)
        with_end = outline.lengths + 1
        values = np.full(with_end.sum(), END, np.int64)
        places = places_of(np.cumsum(with_end) - with_end, outline.lengths)
        values[places] = pieces[outline.stays]
        letters = self._letters(stores, indices, outline.stays, places, len(values)) if self.letters else None
        words = Packed(torch.from_numpy(values), layout_of(with_end, int(with_end.max(initial=1))), letters=letters)
        text = Nested(words, layout_of(outline.sentences, int(outline.sentences.max(initial=1))))
        return TextBatch(text, labels_of(stores, indices, len(indices), self.classes), len(indices), len(values))

    def _letters(
        self, stores: Sequence[TokenStore], indices: Indices, stays: NDArray[np.bool_], places: Lengths, tokens: int
    ) -> Packed:
        """Return the letters of the words that stay; end markers have none."""
        letters, _ = gather(stores, "letters", indices)
        spelled, _ = gather(stores, "spelled", indices)
        counts = np.zeros(tokens, np.int64)
        counts[places] = spelled[stays]
        return pack_letters(letters[np.repeat(stays, spelled)], counts)

    def _outline(self, stores: Sequence[TokenStore], indices: Indices) -> "_Outline":
        spans, counts = gather(stores, "sentences", indices)
        lengths = lengths_of(stores, "text", indices)
        stays = kept_pieces(lengths, np.minimum(lengths, self.max_length), self.cut)
        left = np.bincount(np.repeat(np.arange(len(spans)), spans)[stays], minlength=len(spans))  # words of a sentence
        parts = -(-left // self.max_sentence)
        split = np.full(parts.sum(), self.max_sentence, np.int64)
        some = parts > 0
        split[np.cumsum(parts)[some] - 1] = (left - (parts - 1) * self.max_sentence)[some]
        document = np.repeat(np.arange(len(indices)), counts)
        words, sentences = (np.bincount(document, of, len(indices)).astype(np.int64) for of in (left, parts))
        return _Outline(stays, split, words, sentences)


def cut_texts(collator: Any, store: TokenStore) -> list[bool]:
    """Return which texts of a store are longer than a collator reads, so that they are cut."""
    (read,), (whole,) = (
        each.costs([store], np.arange(len(store))) for each in (collator, replace(collator, max_length=_ANY_LENGTH))
    )
    found: list[bool] = (whole > read).tolist()
    return found


@dataclass(frozen=True, eq=False)
class _Outline:
    """The part of documents that is read."""

    stays: NDArray[np.bool_]  # which words
    lengths: Lengths  # of each sentence
    words: Lengths  # of each document
    sentences: Lengths  # of each document
