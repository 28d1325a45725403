"""Beam search in slots: the rules of `decode.beam`, in place.

Shape letters: S  slots    P  positions that a slot has room for    W  ranked continuations (2K)    J  best finished
"""

import math
from collections.abc import Sequence
from itertools import islice

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenizer import BEGIN, END
from heedful.decode.beam import greatest_penalty
from heedful.decode.growth import allowed
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.rows import pick
from heedful.decode.settings import Settings
from heedful.decode.standing import listed, standing
from heedful.nn.best_tokens import best_tokens


class BeamInSlots:
    """The K best hypotheses of each slot that did not end, best first, and the J best that did."""

    def __init__(self, slots: int, room: int, settings: Settings, vocab_size: int, device: torch.device) -> None:
        self.settings, beams, best = settings, settings.beam, settings.nbest
        self._allowed_V = allowed(settings, vocab_size, device)
        lengths = range(room + 2)
        self._penalties_P = torch.tensor([settings.penalty(max(1, length)) for length in lengths], device=device)
        self._rows_K = torch.arange(beams, device=device)
        self.tokens_SKP = torch.full((slots, beams, room + 2), BEGIN, device=device)  # `<s>` first
        self.log_p_SK = torch.zeros((slots, beams), device=device)
        self.length_S = torch.zeros(slots, dtype=torch.int64, device=device)
        self.limit_S = torch.ones(slots, dtype=torch.int64, device=device)
        self.ceiling_S = torch.ones(slots, dtype=torch.float64, device=device)  # the greatest penalty up to the limit
        self.finished_SJP = torch.full((slots, best, room + 2), BEGIN, device=device)
        self.finished_log_p_SJ = torch.zeros((slots, best), device=device)
        self.finished_score_SJ = torch.zeros((slots, best), device=device)
        self.count_S = torch.zeros(slots, dtype=torch.int64, device=device)
        self._last_SK = torch.full((slots, beams), BEGIN, device=device)
        self._done_S = torch.ones(slots, dtype=torch.bool, device=device)

    @property
    def last_R(self) -> Int[Tensor, "R"]:
        """The last token of each row."""
        return self._last_SK.flatten()

    @property
    def done_S(self) -> Bool[Tensor, "S"]:
        """Which slots need no further step."""
        return self._done_S

    def admit(self, slots: Int[Tensor, "A"], limits: Sequence[int]) -> None:
        """Begin with nothing but `<s>`: one hypothesis, and K - 1 impossible ones."""
        device = slots.device
        self.log_p_SK[slots] = torch.where(self._rows_K == 0, 0.0, -math.inf)
        self.length_S[slots] = 0
        self.limit_S[slots] = torch.tensor(limits, device=device)
        ceilings = [greatest_penalty(self.settings, limit) for limit in limits]
        self.ceiling_S[slots] = torch.tensor(ceilings, dtype=torch.float64, device=device)
        self.finished_log_p_SJ[slots] = -math.inf
        self.finished_score_SJ[slots] = -math.inf
        self.count_S[slots] = 0
        self._last_SK[slots] = BEGIN
        self._done_S[slots] = False

    def grow(self, logits_RV: Float[Tensor, "R V"]) -> tuple[Int[Tensor, "S K"], Bool[Tensor, "S"]]:
        """Rank the continuations; finish those that end, go on with the others."""
        beams = self.settings.beam
        log_p_SW, parents_SW, last_SW = self._continuations(logits_RV)
        going_S = ~self._done_S & (log_p_SW[:, 0] != -math.inf)
        ends_SW = last_SW == END
        self._finish(
            parents_SW[:, :beams],
            last_SW[:, :beams],
            log_p_SW.masked_fill(~(ends_SW & going_S.unsqueeze(1)), -math.inf)[:, :beams],
        )
        log_p_SK, chosen_SK = log_p_SW.masked_fill(ends_SW, -math.inf).topk(beams, dim=1)
        parents_SK = parents_SW.gather(1, chosen_SK).where(going_S.unsqueeze(1), self._rows_K)
        self._last_SK.copy_(last_SW.gather(1, chosen_SK))
        self.log_p_SK.copy_(log_p_SK.where(going_S.unsqueeze(1), self.log_p_SK))
        self.tokens_SKP.copy_(self._longer(parents_SK, self._last_SK))
        self.length_S.add_(going_S)
        self._done_S.copy_(~going_S | self._over())
        return parents_SK, ~self._done_S

    def _continuations(self, logits_RV: Float[Tensor, "R V"]) -> tuple[Tensor, Tensor, Tensor]:
        """The best 2K: their log P, the row each comes from, its last token."""
        slots, beams = self.log_p_SK.shape
        ends_R = (self.length_S >= self.settings.min_length).unsqueeze(1).expand(-1, beams).flatten()
        scores_RC, tokens_RC, sums_R = best_tokens(logits_RV, 2 * beams, self._allowed_V, ends_R, END)
        log_p_RC = self.log_p_SK.view(-1, 1) + (scores_RC - sums_R.unsqueeze(1))
        log_p_SW, places_SW = log_p_RC.view(slots, -1).topk(2 * beams, dim=1)
        return log_p_SW, places_SW // scores_RC.shape[1], tokens_RC.view(slots, -1).gather(1, places_SW)

    def _finish(self, parents_SK: Tensor, last_SK: Tensor, log_p_SK: Tensor) -> None:
        """Put in what ended, where it is among the best; log P is minus infinity where nothing did."""
        score_SK = log_p_SK / self._penalties_P[self.length_S + 1].unsqueeze(1)
        score_SJ, best_SJ = torch.cat([self.finished_score_SJ, score_SK], dim=1).topk(self.settings.nbest, dim=1)
        log_p_SJ = torch.cat([self.finished_log_p_SJ, log_p_SK], dim=1).gather(1, best_SJ)
        tokens_SJP = pick(torch.cat([self.finished_SJP, self._longer(parents_SK, last_SK)], dim=1), best_SJ)
        self.finished_score_SJ.copy_(score_SJ)
        self.finished_log_p_SJ.copy_(log_p_SJ)
        self.finished_SJP.copy_(tokens_SJP)
        self.count_S.add_(log_p_SK.isfinite().sum(1))

    def _longer(self, parents_SK: Int[Tensor, "S K"], last_SK: Int[Tensor, "S K"]) -> Int[Tensor, "S K P+2"]:
        """The tokens of these rows, and one more."""
        place_SK1 = (self.length_S + 1).view(-1, 1, 1).expand(-1, parents_SK.shape[1], 1)
        return pick(self.tokens_SKP, parents_SK).scatter_(2, place_SK1, last_SK.unsqueeze(2))

    def _over(self) -> Bool[Tensor, "S"]:
        """Whether a sentence is done, by the rules of `decode.beam`."""
        worst_S, best_S = self.finished_score_SJ[:, -1], self.log_p_SK[:, 0]
        behind_S = worst_S >= best_S / self._penalties_P[self.length_S]
        enough_S = (self.count_S >= self.settings.beam) & behind_S
        hopeless_S = worst_S >= best_S / self.ceiling_S
        return enough_S | hopeless_S | (self.limit_S <= self.length_S)

    def hypotheses(self, slots: Int[Tensor, "A"]) -> list[list[Hypothesis]]:
        """The J best of each slot: those that ended, then those that were finished as they stood."""
        ended = listed(self.finished_SJP[slots], self.finished_score_SJ[slots], self.finished_log_p_SJ[slots], None)
        missing = [place for place, found in enumerate(ended) if len(found) < self.settings.nbest]
        for place, cut in zip(missing, self._standing(slots[missing]), strict=True):
            ended[place] = list(islice([*ended[place], *cut], self.settings.nbest))
        return ended

    def _standing(self, slots: Int[Tensor, "A"]) -> list[list[Hypothesis]]:
        """What goes on in each slot, as it stands, best first."""
        tokens_AKP, log_p_AK = self.tokens_SKP[slots].cpu(), self.log_p_SK[slots].cpu()
        return [
            sorted(
                standing(self.settings, tokens_AKP[[place], :, : length + 1], log_p_AK[[place]], None)[0],
                key=lambda found: -found.score,
            )
            for place, length in enumerate(self.length_S[slots].tolist())
        ]
