"""Positions of tokens in a sentence, as vectors."""

import math
from collections.abc import Callable, Mapping
from typing import Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.base.packed import Layout


class Sinusoidal(nn.Module):
    """P(p, 2i) = sin(p / b^(2i/E)),  P(p, 2i+1) = cos(p / b^(2i/E)),  b = 10000      Vaswani et al. 2017, 3.5

    `halves` puts all sines before all cosines, as the paper's released code did. The length of a sentence is not
    limited: the table grows as needed.
    """

    def __init__(self, width: int, halves: bool = False, expected: int = 512, base: float = 10_000.0) -> None:
        super().__init__()
        self.width, self.halves, self.base = width, halves, base
        self.register_buffer("table", self._rows(expected), persistent=False)
        self.table: Tensor
        self._outgrown: list[
            Tensor
        ] = []  # recorded CUDA graphs may still read them; together they are smaller than `table`

    def forward(self, positions_N: Int[Tensor, "N"], bound: int) -> Float[Tensor, "N E"]:
        """Look up positions, all below `bound`."""
        table = self.table  # another thread may replace it at any time
        if bound > table.shape[0]:
            table = self._rows(2 * bound).to(table)
            self._outgrown.append(self.table)
            self.table = table
        return table[positions_N]

    def _rows(self, count: int) -> Float[Tensor, "P E"]:
        rates = torch.exp(torch.arange(0, self.width, 2, dtype=torch.float64) * (-math.log(self.base) / self.width))
        angles = torch.arange(count, dtype=torch.float64).unsqueeze(1) * rates
        waves = (angles.sin(), angles.cos())
        rows = torch.cat(waves, dim=1) if self.halves else torch.stack(waves, dim=2).flatten(1)
        return rows.to(torch.get_default_dtype())


class WordPositions(nn.Module):
    """P(w) as `Sinusoidal` has it, where w is the number of words before a token, or with it (`counts_itself`).

    An encoder counts the words before a token, and a decoder those that it has written: both then have the same vector
    for the word that is read next. `ends` says which tokens end a word: a part of a word does not, nor does a bracket.
    """

    def __init__(self, ends_V: Bool[Tensor, "V"], width: int, counts_itself: bool) -> None:
        super().__init__()
        self.counts_itself = counts_itself
        self.waves = Sinusoidal(width)
        self.register_buffer("ends", ends_V.long(), persistent=False)
        self.ends: Tensor

    def forward(self, counts_N: Int[Tensor, "N"], bound: int) -> Float[Tensor, "N E"]:
        """Look up counts, all at most `bound`."""
        waves: Tensor = self.waves(counts_N, bound + 1)
        return waves

    def count(self, tokens_N: Int[Tensor, "N"], layout: Layout) -> Int[Tensor, "N"]:
        """Return w of every token of packed sentences."""
        ends_N = self.ends[tokens_N]
        before_N = ends_N.cumsum(0) - ends_N  # in the whole batch
        first_N = torch.arange(len(tokens_N), device=tokens_N.device) - layout.positions
        counts_N = before_N - before_N[first_N]
        return counts_N + ends_N if self.counts_itself else counts_N

    def next(self, counts_R: Int[Tensor, "*any"], tokens_R: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """Return w of one more token per row, after the counts of all earlier ones."""
        return counts_R + self.ends[tokens_R]


class Learned(nn.Module):
    """P(p) = row p of a learned matrix      Gehring et al. 2017"""

    def __init__(self, width: int, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.weight = nn.Parameter(torch.empty(limit, width))

    def forward(self, positions_N: Int[Tensor, "N"], bound: int) -> Float[Tensor, "N E"]:
        """Look up positions; the caller, who knows the sentence, must check the limit."""
        return F.embedding(positions_N, self.weight)  # its gradient is faster than that of indexing


ADDED: Final[Mapping[str, Callable[[int, int], nn.Module]]] = {
    "sinusoidal": lambda width, limit: Sinusoidal(width),
    "sinusoidal_halves": lambda width, limit: Sinusoidal(width, halves=True),
    "learned": Learned,
}
"""Positions that are added to embeddings, by name; the others are in `nn/attention/relative_positions.py`."""
