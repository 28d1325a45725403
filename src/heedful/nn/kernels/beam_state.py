"""The buffers of a beam search in slots, which a step changes in place.

Shape letters of this file: S  slots    P  positions that a slot has room for    J  finished hypotheses that are kept
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class BeamState:
    """The K open hypotheses of each slot, best first, and its J best finished ones."""

    last_SK: Int[Tensor, "S K"]
    log_p_SK: Float[Tensor, "S K"]
    length_S: Int[Tensor, "S"]  # tokens decoded
    limit_S: Int[Tensor, "S"]  # maximum number of tokens, including `</s>`
    ceiling_S: Float[Tensor, "S"]  # the largest penalty up to that length
    tokens_SPK: Int[Tensor, "S P K"]  # the token of each row at each position
    parents_SPK: Int[Tensor, "S P K"]  # the row of the previous position that it continues
    score_SJ: Float[Tensor, "S J"]  # of finished hypotheses, best first; minus infinity for none
    ended_log_p_SJ: Float[Tensor, "S J"]
    ended_row_SJ: Int[Tensor, "S J"]  # the row before `</s>`
    ended_length_SJ: Int[Tensor, "S J"]  # including `</s>`
    count_S: Int[Tensor, "S"]  # number of hypotheses that have finished
    done_S: Bool[Tensor, "S"]  # True for idle slots too
    shared_S: Bool[Tensor, "S"]  # whether all candidates are chosen: those that end are finished, whatever their rank
    ends_R: Bool[Tensor, "R"]  # whether `</s>` is allowed
    rows_R: Int[Tensor, "R"]  # the row, among all, that each row extended in the last step of its slot
    ancestors_SKP: Int[Tensor, "S K P"]  # of the decoder's slots: see `models.transformer.slots`
    positions_S: Int[Tensor, "S"]
    penalties_SP: Float[Tensor, "S P+2"]  # by length; float64, because strong penalties are tiny or huge
    least_S: Int[Tensor, "S"]  # minimum number of tokens, without `</s>`
    end: int

    @classmethod
    def idle(
        cls,
        ancestors_SKP: Int[Tensor, "S K P"],
        positions_S: Int[Tensor, "S"],
        best: int,
        end: int,
    ) -> "BeamState":
        """Make buffers for these slots of a decoder, all of them idle."""
        slots, beams, room = ancestors_SKP.shape
        device = ancestors_SKP.device

        def whole(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=device)

        def real(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float32, device=device)

        return cls(
            torch.zeros((slots, beams), dtype=torch.int64, device=device),
            real(slots, beams),
            whole(slots),
            whole(slots),
            torch.ones(slots, dtype=torch.float64, device=device),
            whole(slots, room, beams),
            whole(slots, room, beams),
            real(slots, best),
            real(slots, best),
            whole(slots, best),
            whole(slots, best),
            whole(slots),
            torch.ones(slots, dtype=torch.bool, device=device),
            torch.zeros(slots, dtype=torch.bool, device=device),
            torch.zeros(slots * beams, dtype=torch.bool, device=device),
            torch.arange(slots * beams, device=device),
            ancestors_SKP,
            positions_S,
            torch.ones((slots, room + 2), dtype=torch.float64, device=device),
            whole(slots),
            end,
        )

    def begin(
        self,
        slots: Int[Tensor, "A"],
        limits_A: Int[Tensor, "A"],
        least_A: Int[Tensor, "A"],
        penalties_AP: Float[Tensor, "A P+2"],
        firsts_A: Int[Tensor, "A"],
    ) -> None:
        """Start these slots with one hypothesis, a first token, and K - 1 impossible ones."""
        beams = self.log_p_SK.shape[1]
        rows_K = torch.arange(beams, device=slots.device)
        self.log_p_SK[slots] = torch.where(rows_K == 0, 0.0, -math.inf)
        self.last_SK[slots] = firsts_A.unsqueeze(1)
        self.limit_S[slots] = limits_A.to(torch.int32)
        self.least_S[slots] = least_A.to(torch.int32)
        self.penalties_SP[slots] = penalties_AP
        # The greatest penalty of the lengths from 1 to the limit bounds every later score.
        up_to_AP = penalties_AP[:, 1:].cummax(1).values
        self.ceiling_S[slots] = up_to_AP.gather(1, limits_A.long().unsqueeze(1) - 1).squeeze(1)
        for counter in (self.length_S, self.count_S, self.positions_S):
            counter[slots] = 0
        for scores in (self.score_SJ, self.ended_log_p_SJ):
            scores[slots] = -math.inf
        self.ends_R.view(-1, beams)[slots] = (least_A <= 0).unsqueeze(1)
        self.done_S[slots] = self.shared_S[slots] = False
