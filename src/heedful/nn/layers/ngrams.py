"""N-grams of tokens, hashed into the rows of a table."""

from typing import Final

from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.nn.layers.embedding import Embedding
from heedful.packed import Layout, Packed

# Part of the format of models: with other numbers, an n-gram would have the vector of another one.
_PRIME: Final = 2**31 - 1
_FACTOR: Final = 1_103_515_245


class NgramBag(nn.Module):
    """x_i = W[t_i] + sum_{n = 2 .. N} H[hash(t_{i - n + 1} ... t_i)]      Joulin et al. 2017, 2.1

    The vector of a token is the sum of those of the n-grams that end at it. Their mean over a text is fastText's bag of
    n-grams: the order of words matters within n-grams alone. H is zero at first, so that n-grams which never occur in
    training add nothing.
    """

    def __init__(self, embedding: Embedding, hashed: Embedding | None, longest: int) -> None:
        super().__init__()
        self.embedding, self.hashed, self.longest = embedding, hashed, longest
        if hashed is not None:
            nn.init.zeros_(hashed.weight)

    def forward(self, text: Packed) -> Packed:
        """Return one vector per token."""
        tokens_N, layout = text.values, text.layout
        x_NE: Tensor = self.embedding(tokens_N, layout, added_NE=text.added)
        if self.hashed is not None:
            for length, rows_N in enumerate(hash_ngrams(tokens_N, self.longest, len(self.hashed.weight)), start=2):
                y_NE: Tensor = self.hashed(rows_N, layout)
                x_NE = x_NE + _whole(y_NE, layout, length)
        return text.with_values(x_NE)


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
