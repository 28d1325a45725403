"""Batches of words to label: `<s> sentence </s>`, and where the words of each sentence begin."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from heedful.base.packed import IGNORED, Layout, Packed
from heedful.data.collate import Movable, StaticShape, gather, layouts, lengths_of, marked_sequences, places_of
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.prepare.letters import pack_letters
from heedful.data.token_store import TokenStore

_MARKERS = 2


@dataclass(frozen=True, eq=False)
class TaggedBatch(Movable):
    """Sentences, and the words of each. Dummies have words with the label IGNORED.

    Shape letter of this file: W  words of a batch
    """

    text: Packed
    words: Layout  # the words of each sentence
    places: Int[Tensor, "W"]  # packed index of the first piece of each word
    labels: Int[Tensor, "W"]
    sentences: int  # the real ones
    tokens: int  # the real ones, markers included
    real_words: int

    def labels_of_rows(self) -> list[list[int]]:
        """Return what each real row is to predict: the labels of its words."""
        offsets = self.words.offsets[: self.sentences + 1].tolist()
        return [self.labels[start:end].tolist() for start, end in pairwise(offsets)]


@dataclass(frozen=True)
class TaggedCollator:
    """Makes batches of sentences of words; rows were cut to the longest length when they were tokenized."""

    noun: ClassVar = "sentence"

    most_words: int | None = None  # words of the longest row, if it is known: a bound for static shapes

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> tuple[Counts]:
        """Return the tokens of some sentences, markers included."""
        return (lengths_of(stores, "text", indices) + _MARKERS,)

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> TaggedBatch:
        """Make the batch of these sentences: ragged, filled up to a multiple of tokens, or of one static shape."""
        pieces, piece_counts = gather(stores, "text", indices)
        sizes, word_counts = gather(stores, "words", indices)
        lengths = piece_counts + _MARKERS
        layout, starts, values = marked_sequences(lengths, static, multiple)
        (words,) = layouts([word_counts], self._of_words(static), multiple)
        values[places_of(starts + 1, piece_counts)] = pieces
        places = np.zeros(words.tokens, np.int64)
        # Before the first piece of a word there are those of the words before it, and two markers per sentence before.
        places[: len(sizes)] = np.cumsum(sizes) - sizes + np.repeat(_MARKERS * np.arange(len(indices)) + 1, word_counts)
        labels = np.full(words.tokens, IGNORED, np.int64)
        if "label" in stores[0].streams:
            labels[: len(sizes)] = gather(stores, "label", indices)[0]
        letters = (
            self._letters(stores, indices, places[: len(sizes)], layout.tokens, static is not None, multiple)
            if "letters" in stores[0].streams
            else None
        )
        return TaggedBatch(
            Packed(torch.from_numpy(values), layout, letters=letters),
            words,
            torch.from_numpy(places),
            torch.from_numpy(labels),
            len(indices),
            int(lengths.sum()),
            len(sizes),
        )

    def _letters(
        self, stores: Sequence[TokenStore], indices: Indices, places: Indices, tokens: int, static: bool, multiple: int
    ) -> Packed:
        """Return the letters of all words, which are those of their first pieces, at these places of a batch."""
        counts = np.zeros(tokens, np.int64)
        counts[places] = gather(stores, "spelled", indices)[0]
        return pack_letters(gather(stores, "letters", indices)[0], counts, static, multiple)

    def _of_words(self, static: StaticShape | None) -> StaticShape | None:
        """Return the common shape of the words of batches whose tokens have a common shape.

        A layout of words has as many of them as there are tokens, and dummies of its own: rows of words are shorter
        than rows of tokens, and whatever walks along the words of a sentence takes fewer steps.
        """
        if static is None:
            return None
        return StaticShape.around(
            static.tokens, static.max_sentences, min(static.bound, self.most_words or static.bound)
        )
