"""Batches of documents to classify: words in sentences in documents, each sentence with an end marker."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.base.packed import Nested, Packed
from heedful.data.batch_layout import Lengths, StaticShape, layout_of
from heedful.data.batches.labelled import labels_of
from heedful.data.batches.texts import Cut, TextBatch, kept_pieces
from heedful.data.collate import gather, lengths_of, places_of
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.prepare.letters import pack_letters
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import END


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


@dataclass(frozen=True, eq=False)
class _Outline:
    """The part of documents that is read."""

    stays: NDArray[np.bool_]  # which words
    lengths: Lengths  # of each sentence
    words: Lengths  # of each document
    sentences: Lengths  # of each document
