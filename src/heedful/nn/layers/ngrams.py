"""N-grams of tokens, hashed into the rows of a table."""

from collections.abc import Sequence
from typing import Final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.nn.layers.embedding import Embedding
from heedful.nn.per_sentence import copy_to_tokens, sum_per_sentence

# Part of the format of models: with other numbers, an n-gram would have the vector of another one.
_PRIME: Final = 2**31 - 1
_FACTOR: Final = 1_103_515_245


class NgramBag(nn.Module):
    """x_i = W[t_i] + sum_{n = 2 .. N} H[hash(t_{i - n + 1} ... t_i)]      Joulin et al. 2017, 2.1

    The vector of a token is the sum of those of the n-grams that end at it. Their mean over a text is fastText's bag of
    n-grams: the order of words matters within n-grams alone. H is zero at first, so that n-grams which never occur in
    training add nothing.

    With weights a of n-grams, the mean over a text is sum_j b_j W_j / |b|, b_j = (1 + log c_j) a_j, where c_j is how
    often the n-gram j occurs in it: tf-idf, if a is the logarithm of an n-gram's rarity (Salton and Buckley 1988).
    There are `weights_per_bucket` weights for each row of H, by the same hash: an n-gram that is new shares a row of H
    with a known one more often than a weight, and weighs nothing if the weights of new ones are zero.
    """

    def __init__(
        self, embedding: Embedding, hashed: Embedding | None, longest: int, weighted: bool = False,
        weights_per_bucket: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.embedding, self.hashed, self.longest = embedding, hashed, longest
        if hashed is not None:
            nn.init.zeros_(hashed.weight)
        self._hashed_weights = 0 if hashed is None else len(hashed.weight) * weights_per_bucket
        rows = len(embedding.weight) + self._hashed_weights
        self.weights = nn.Parameter(torch.ones(rows)) if weighted else None

    def forward(self, text: Packed) -> Packed:
        """Return one vector per token."""
        if self.weights is not None:
            return text.with_values(self._weighted(text, self.weights))
        tokens_N, layout = text.values, text.layout
        x_NE: Tensor = self.embedding(tokens_N, layout, added_NE=text.added)
        if self.hashed is not None:
            for length, rows_N in enumerate(hash_ngrams(tokens_N, self.longest, len(self.hashed.weight)), start=2):
                y_NE: Tensor = self.hashed(rows_N, layout)
                x_NE = x_NE + _whole(y_NE, layout, length)
        return text.with_values(x_NE)

    def _weighted(self, text: Packed, weights: Tensor) -> Float[Tensor, "N E"]:
        """Return vectors whose mean over a text has the weights of its n-grams, and the length of one."""
        layout, rows = text.layout, self.rows(text)
        _, inverse, counts = torch.unique(torch.cat(self._places(text, rows)), return_inverse=True, return_counts=True)
        often = counts[inverse].to(weights.dtype).split(layout.tokens)
        x_NE: Tensor | float = 0.0
        squares_N1: Tensor | float = 0.0
        for length, (rows_N, count_N) in enumerate(zip(rows, often, strict=True), start=1):
            table, first = (self.embedding, 0) if length == 1 or self.hashed is None else (self.hashed, self.tokens)
            damped_N1 = ((1 + count_N.log()) * F.embedding(rows_N, weights.unsqueeze(1)).squeeze(1)).unsqueeze(1)
            damped_N1 = _whole(damped_N1, layout, length)
            vectors_NE = table(self.vector_rows(rows_N) - first, layout)
            x_NE = x_NE + vectors_NE * (damped_N1 / count_N.unsqueeze(1)).to(table.precision)
            squares_N1 = squares_N1 + damped_N1.square() / count_N.unsqueeze(1)
        assert isinstance(x_NE, Tensor)
        assert isinstance(squares_N1, Tensor)
        size_B1 = sum_per_sentence(squares_N1, layout).clamp(min=1e-12).sqrt()
        return x_NE * copy_to_tokens(layout.lengths.unsqueeze(1) / size_B1, layout).to(x_NE.dtype)

    @property
    def tokens(self) -> int:
        """Number of tokens, whose rows and weights come before those of hashed n-grams."""
        return len(self.embedding.weight)

    def rows(self, text: Packed) -> list[Int[Tensor, "N"]]:
        """Return for each length the weights of the n-grams that end at each token: their numbers."""
        ngrams = [] if self.hashed is None else hash_ngrams(text.values, self.longest, self._hashed_weights)
        return [text.values, *(rows_N + self.tokens for rows_N in ngrams)]

    def vector_rows(self, rows_N: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
        """Return the rows of the vectors of n-grams, those of hashed ones after those of tokens."""
        if self.hashed is None:
            return rows_N
        hashed_N = (rows_N - self.tokens) % len(self.hashed.weight) + self.tokens
        return torch.where(rows_N < self.tokens, rows_N, hashed_N)

    @torch.no_grad()
    def count_texts(self, text: Packed) -> Int[Tensor, "J"]:
        """Return in how many texts the n-grams of each weight occur."""
        assert self.weights is not None, "n-grams without weights"
        size, places = len(self.weights), torch.cat(self._places(text, self.rows(text))).unique()
        return torch.bincount(places[places >= 0] % size, minlength=size)

    @torch.no_grad()
    def features(self, text: Packed) -> tuple[Int[Tensor, "V"], Int[Tensor, "V"], Float[Tensor, "V"]]:
        """Return the texts, rows of vectors and weights of n-grams, in the order of texts: b_j / |b|."""
        assert self.weights is not None, "n-grams without weights"
        places, counts = torch.cat(self._places(text, self.rows(text))).unique(return_counts=True)
        counts, places = counts[places >= 0], places[places >= 0]
        sentences, rows = places // len(self.weights), places % len(self.weights)
        values = (1 + counts.to(self.weights.dtype).log()) * self.weights[rows]
        squares_B = values.new_zeros(text.layout.sentences).index_add(0, sentences, values.square())
        return sentences, self.vector_rows(rows), values / squares_B.clamp(min=1e-12).sqrt()[sentences]

    def _places(self, text: Packed, rows: Sequence[Int[Tensor, "N"]]) -> list[Int[Tensor, "N"]]:
        """Return a number for each weight of each text; -1 where an n-gram would begin before its text."""
        layout, size = text.layout, self.tokens + self._hashed_weights
        first_N = layout.scatter // max(layout.bound, 1) * size
        return [
            (first_N + rows_N).masked_fill(layout.positions < length - 1, -1)
            for length, rows_N in enumerate(rows, start=1)
        ]


def hash_ngrams(tokens_N: Int[Tensor, "N"], longest: int, buckets: int) -> list[Int[Tensor, "N"]]:
    """Return the rows of the n-grams of 2, 3, ... `longest` tokens that end at each token.

    h_1(i) = t_i + 1,  h_n(i) = (h_{n - 1}(i - 1) * factor + t_i + 1) mod prime; the row is h_n mod buckets. Rows
    of the first n - 1 tokens of a text mean nothing, as they reach into another text.
    """
    marks_N = tokens_N.long() + 1
    hash_N, rows = marks_N % _PRIME, []
    for _ in range(2, longest + 1):
        hash_N = (hash_N.roll(1) * _FACTOR + marks_N) % _PRIME
        rows.append(hash_N % buckets)
    return rows


def _whole(x_NE: Float[Tensor, "N E"], layout: Layout, length: int) -> Float[Tensor, "N E"]:
    """Return the vectors of n-grams of this length, and zeros where they would begin before their text."""
    return x_NE.masked_fill((layout.positions < length - 1).unsqueeze(1), 0)
