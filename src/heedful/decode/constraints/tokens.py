"""Constraints on single tokens and on repetition.

Shape letter of this file: P  tokens of the longest source
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN
from heedful.decode.constraints.protocol import Timeless

# No search outputs these: markers of ours, and a token that tells a reader nothing.
NEVER: Final = (PAD, BEGIN, UNKNOWN)


@dataclass(frozen=True, eq=False)
class Never(Timeless):
    """Some tokens are never output."""

    tokens: Int[Tensor, "tokens"]

    @classmethod
    def of(cls, tokens: Sequence[int], device: torch.device) -> "Never":
        """Forbid these tokens, and those that no search outputs."""
        return cls(torch.tensor([*NEVER, *tokens], device=device))

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid them after anything."""
        scores_RV.index_fill_(1, self.tokens, -math.inf)


@dataclass(frozen=True)
class NoRepeat(Timeless):
    """No n-gram occurs twice in a hypothesis      Paulus et al. 2018, 2.5"""

    size: int

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid what followed earlier occurrences of the last n - 1 tokens. `<s>` and `</s>` occur once anyway."""
        if tokens_RT.shape[1] < self.size:
            return
        grams_RGN = tokens_RT.unfold(1, self.size, 1)
        last_R1N = tokens_RT[:, None, tokens_RT.shape[1] - self.size + 1 :]
        again_RG = (grams_RGN[:, :, :-1] == last_R1N).all(2)
        bound_RG = scores_RV.new_full(again_RG.shape, math.inf).masked_fill_(again_RG, -math.inf)
        scores_RV.scatter_reduce_(1, grams_RGN[:, :, -1], bound_RG, "amin")


@dataclass(frozen=True)
class MinLength(Timeless):
    """A hypothesis has at least this number of tokens, without `</s>`."""

    tokens: int

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid `</s>` after fewer tokens."""
        if tokens_RT.shape[1] - 1 < self.tokens:
            scores_RV[:, END] = -math.inf


@dataclass(frozen=True, eq=False)
class RepetitionPenalty:
    """x_v / penalty where x_v > 0, x_v * penalty elsewhere, if token v occurred before      Keskar et al. 2019, 4.1

    The paper divides every score, which would favour repetition where scores are negative. Scores only fall, so that
    the bounds of a beam search hold; hypotheses are ranked by what is left of them.
    """

    penalty: float
    sources_BP: Int[Tensor, "B P"]  # tokens of the sources that are continued; the last one fills up

    @classmethod
    def of(cls, penalty: float, sources: Sequence[Sequence[int]], device: torch.device) -> "RepetitionPenalty":
        """Penalise the tokens of each source, and those that follow it."""
        longest = max(map(len, sources))
        filled = [[*source, *[source[-1]] * (longest - len(source))] for source in sources]
        return cls(penalty, torch.tensor(filled, dtype=torch.int64, device=device))

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Lower the scores of all tokens that occurred in the source or in the row."""
        sources_RP = self.sources_BP.repeat_interleave(len(tokens_RT) // len(self.sources_BP), 0)
        seen_RV = torch.zeros_like(scores_RV, dtype=torch.bool)
        seen_RV.scatter_(1, torch.cat([sources_RP, tokens_RT], dim=1), True)
        penalise(scores_RV, seen_RV, self.penalty)

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "RepetitionPenalty":
        """Return this rule: the tokens of a row say all."""
        return self

    def select(self, sentences: Int[Tensor, "A"]) -> "RepetitionPenalty":
        """Keep only these sentences."""
        return replace(self, sources_BP=self.sources_BP[sentences])


def penalise(scores_RV: Float[Tensor, "R V"], seen_RV: Bool[Tensor, "R V"], penalty: float) -> None:
    """Lower the scores of tokens that occurred before, in place."""
    lower_RV = torch.where(scores_RV > 0, scores_RV / penalty, scores_RV * penalty)
    scores_RV.copy_(torch.where(seen_RV, lower_RV, scores_RV))
