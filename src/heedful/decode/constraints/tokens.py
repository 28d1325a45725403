"""Constraints on single tokens and on repetition; in slots they keep what they know in buffers that never move.

Shape letter of this file: P  tokens of the longest source; in slots those that a row has room for, plus 1
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN
from heedful.decode.constraints.protocol import OfSentences, SlotRows, Timeless
from heedful.decode.query import Query, token_ids

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

    def in_slots(self, rows: SlotRows) -> "TimelessInSlots":
        """Make the constraint of slots."""
        return TimelessInSlots(self, rows)


@dataclass(frozen=True)
class MinLength(Timeless):
    """A hypothesis has at least this number of tokens, without `</s>`."""

    tokens: int
    counts: ClassVar[bool] = True

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid `</s>` after fewer tokens."""
        if tokens_RT.shape[1] - 1 < self.tokens:
            scores_RV[:, END] = -math.inf


@dataclass(frozen=True, eq=False)
class RepetitionPenalty(OfSentences):
    """x_v / penalty where x_v > 0, x_v * penalty elsewhere, if token v occurred before      Keskar et al. 2019, 4.1

    The paper divides every score, which would favour repetition where scores are negative. Scores only fall, so that
    the bounds of a beam search hold; hypotheses are ranked by what is left of them.
    """

    penalty: float
    sources_BP: Int[Tensor, "B P"]  # tokens of the sources that are continued; the last one fills up

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Lower the scores of all tokens that occurred in the source or in the row."""
        sources_RP = self.sources_BP.repeat_interleave(len(tokens_RT) // len(self.sources_BP), 0)
        seen_RV = torch.zeros_like(scores_RV, dtype=torch.bool)
        seen_RV.scatter_(1, torch.cat([sources_RP, tokens_RT], dim=1), True)
        penalise(scores_RV, seen_RV, self.penalty)

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "RepetitionPenalty":
        """Return this rule: the tokens of a row say all."""
        return self


def penalise(scores_RV: Float[Tensor, "R V"], seen_RV: Bool[Tensor, "R V"], penalty: float) -> None:
    """Lower the scores of tokens that occurred before, in place."""
    lower_RV = torch.where(scores_RV > 0, scores_RV / penalty, scores_RV * penalty)
    scores_RV.copy_(torch.where(seen_RV, lower_RV, scores_RV))


class TimelessInSlots:
    """A constraint that looks at the tokens of a row alone. They are kept at the end of the row's buffer.

    So the last tokens of all rows are in the same columns, as in a batch; before the first is `<pad>`. The rule must
    take that as tokens that differ from all others, and must not look at their number.
    """

    def __init__(self, rule: Timeless, rows: SlotRows) -> None:
        self._rule, self._beams = rule, rows.beams
        self._tokens_RP = torch.full((rows.slots * rows.beams, rows.room + 1), PAD, device=rows.device)

    def admit(self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None) -> None:
        """Start with the first token alone."""
        tokens_SKP = self._tokens_RP.unflatten(0, (-1, self._beams))
        tokens_SKP[slots] = PAD
        first_A = torch.tensor([BEGIN] * len(queries) if firsts is None else firsts, device=slots.device)
        tokens_SKP[slots, :, -1] = first_A.unsqueeze(1)

    def forbid(self, scores_RV: Float[Tensor, "R V"]) -> None:
        """Forbid what the rule forbids."""
        self._rule.forbid(scores_RV, self._tokens_RP)

    def follow(self, rows_R: Int[Tensor, "R"] | None, last_R: Int[Tensor, "R"]) -> None:
        """Move all tokens forward by one, and add the last."""
        tokens_RP = self._tokens_RP if rows_R is None else self._tokens_RP.index_select(0, rows_R)
        self._tokens_RP.copy_(torch.cat([tokens_RP[:, 1:], last_R.unsqueeze(1)], dim=1))


@dataclass(frozen=True)
class PenaliseRepetition:
    """A factory: lower the scores of tokens that occurred in a source that is continued, or after it."""

    penalty: float

    def __call__(self, queries: Sequence[Query], device: torch.device) -> RepetitionPenalty:
        """Make the constraint of a batch."""
        sources = [token_ids(query.source) for query in queries]
        longest = max(map(len, sources))
        filled = [[*source, *[source[-1]] * (longest - len(source))] for source in sources]
        return RepetitionPenalty(self.penalty, torch.tensor(filled, dtype=torch.int64, device=device))

    def in_slots(self, rows: SlotRows) -> "RepetitionPenaltyInSlots":
        """Make the constraint of slots."""
        return RepetitionPenaltyInSlots(self.penalty, rows)


class RepetitionPenaltyInSlots:
    """The rule of `RepetitionPenalty`, with one flag per row and token of the vocabulary."""

    def __init__(self, penalty: float, rows: SlotRows) -> None:
        self._penalty, self._beams = penalty, rows.beams
        self._seen_RV = torch.zeros((rows.slots * rows.beams, rows.vocab_size), dtype=torch.bool, device=rows.device)

    def admit(self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None) -> None:
        """Start with the tokens of the sources."""
        sources = [token_ids(query.source) for query in queries]
        lengths = torch.tensor([len(source) for source in sources], device=slots.device)
        tokens_N = torch.tensor(
            [token for source in sources for token in source], dtype=torch.int64, device=slots.device
        )
        seen_SKV = self._seen_RV.unflatten(0, (-1, self._beams))
        seen_SKV[slots] = False
        seen_SKV[slots.repeat_interleave(lengths, output_size=len(tokens_N)), :, tokens_N] = True

    def forbid(self, scores_RV: Float[Tensor, "R V"]) -> None:
        """Lower the scores of all tokens that occurred in the source or in the row."""
        penalise(scores_RV, self._seen_RV, self._penalty)

    def follow(self, rows_R: Int[Tensor, "R"] | None, last_R: Int[Tensor, "R"]) -> None:
        """Take the flags of the row that each row extends, and add its last token."""
        if rows_R is not None:
            self._seen_RV.copy_(self._seen_RV.index_select(0, rows_R))
        self._seen_RV.scatter_(1, last_R.unsqueeze(1), True)
