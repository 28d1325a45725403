"""Beam search: the K best hypotheses of each sentence grow side by side.

    score(y) = log P(y | x) / penalty(length of y)      Wu et al. 2016, 7

A step ranks the K * V continuations of a sentence by log P. Of the best K, those that end with `</s>` are finished; the
best K that do not end go on. A sentence is done when

    - K of its hypotheses are finished, and the best that goes on scores, as long as it is now, no better than the last
      of its J best, or
    - nothing that goes on can still come among its J best: log P only falls, so log P over the greatest penalty up to
      the maximum length bounds every score to come, or
    - the maximum length is reached: what goes on then is finished as it stands, behind all that ended by themselves.

The second rule loses nothing. The first gives up little: to stop at K finished ones alone, as is often done, drops the
best hypothesis of a confident model while poor ones end early beside it. A beam as wide as there are sequences equals
brute force.

Shape letters of this file: W  ranked continuations (2K)    J  best finished hypotheses that are kept (`nbest`)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from heedful.data.tokenizer import BEGIN, END
from heedful.decode.choices import best_tokens
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.settings import Settings


@dataclass(frozen=True, eq=False)
class Finished:
    """The J best finished hypotheses of each sentence, best first; minus infinity where there is none yet."""

    tokens_BJT: Int[Tensor, "B J T"]  # `<s>` first; behind `</s>` anything may stand
    log_p_BJ: Float[Tensor, "B J"]
    score_BJ: Float[Tensor, "B J"]
    count_B: Int[Tensor, "B"]  # how many were finished in all

    @classmethod
    def none(cls, sentences: int, size: int, device: torch.device) -> "Finished":
        """Begin with room for J = `size`."""
        nothing_BJ = torch.full((sentences, size), -math.inf, device=device)
        tokens_BJ1 = torch.full((sentences, size, 1), BEGIN, device=device)
        return cls(tokens_BJ1, nothing_BJ, nothing_BJ, torch.zeros(sentences, dtype=torch.int64, device=device))

    def add(self, tokens_BKT: Int[Tensor, "B K T"], log_p_BK: Float[Tensor, "B K"], divisor: float) -> "Finished":
        """Put in hypotheses that just ended, all of one length; log P is minus infinity where one did not."""
        scores = torch.cat([self.score_BJ, log_p_BK / divisor], dim=1)
        score_BJ, best_BJ = scores.topk(self.score_BJ.shape[1], dim=1)
        return Finished(
            _pick(torch.cat([F.pad(self.tokens_BJT, (0, 1)), tokens_BKT], dim=1), best_BJ),
            _pick(torch.cat([self.log_p_BJ, log_p_BK], dim=1), best_BJ),
            score_BJ,
            self.count_B + log_p_BK.isfinite().sum(1),
        )

    def select(self, sentences: Int[Tensor, "A"]) -> "Finished":
        """Keep only these sentences."""
        return Finished(
            self.tokens_BJT[sentences], self.log_p_BJ[sentences], self.score_BJ[sentences], self.count_B[sentences]
        )


@dataclass(frozen=True, eq=False)
class Beam:
    """The K best hypotheses of each sentence that did not end, best first, and those that did."""

    settings: Settings
    tokens_BKT: Int[Tensor, "B K T"]  # `<s>` first
    log_p_BK: Float[Tensor, "B K"]
    finished: Finished
    limit_B: Int[Tensor, "B"]  # the most tokens, `</s>` counted
    ceiling_B: Float[Tensor, "B"]  # the greatest penalty up to there

    @classmethod
    def begin(cls, limits: Sequence[int], settings: Settings, device: torch.device) -> "Beam":
        """Start with nothing but `<s>`: one hypothesis, and K - 1 impossible ones."""
        sentences = len(limits)
        log_p_BK = torch.full((sentences, settings.beam), -math.inf, device=device)
        log_p_BK[:, 0] = 0
        return cls(
            settings,
            torch.full((sentences, settings.beam, 1), BEGIN, device=device),
            log_p_BK,
            Finished.none(sentences, settings.nbest, device),
            torch.tensor(limits, device=device),
            torch.tensor([_greatest(settings, limit) for limit in limits], dtype=torch.float64, device=device),
        )

    @property
    def beams(self) -> int:
        """K: rows of each sentence."""
        return self.settings.beam

    @property
    def length(self) -> int:
        """How many tokens were decoded; `<s>` is none of them."""
        return self.tokens_BKT.shape[2] - 1

    @property
    def last_R(self) -> Int[Tensor, "R"]:
        """The last token of each row."""
        return self.tokens_BKT[:, :, -1].flatten()

    def extend(self, logits_RV: Float[Tensor, "R V"]) -> tuple["Beam", Int[Tensor, "B K"]]:
        """Rank the continuations; finish those that end, go on with the others."""
        log_p_BW, parents_BW, last_BW = self._continuations(logits_RV)
        tokens_BWT = torch.cat([_pick(self.tokens_BKT, parents_BW), last_BW.unsqueeze(2)], dim=2)
        ends_BW = last_BW == END
        log_p_BK, going_BK = log_p_BW.masked_fill(ends_BW, -math.inf).topk(self.beams, dim=1)
        ended_BK = log_p_BW.masked_fill(~ends_BW, -math.inf)[:, : self.beams]
        divisor = self.settings.penalty(self.length + 1)
        extended = replace(
            self,
            tokens_BKT=_pick(tokens_BWT, going_BK),
            log_p_BK=log_p_BK,
            finished=self.finished.add(tokens_BWT[:, : self.beams], ended_BK, divisor),
        )
        return extended, parents_BW.gather(1, going_BK)

    def _continuations(self, logits_RV: Float[Tensor, "R V"]) -> tuple[Tensor, Tensor, Tensor]:
        """The best 2K: their log P, the row each comes from, its last token. One a row can end, so K do not."""
        log_p_RC, tokens_RC = best_tokens(logits_RV, 2 * self.beams)
        each = log_p_RC.shape[1]
        totals_BI = (self.log_p_BK.flatten().unsqueeze(1) + log_p_RC).view(-1, self.beams * each)
        log_p_BW, places_BW = totals_BI.topk(2 * self.beams, dim=1)
        return log_p_BW, places_BW // each, tokens_RC.view(-1, self.beams * each).gather(1, places_BW)

    @property
    def done_B(self) -> Bool[Tensor, "B"]:
        """Whether the sentence is done, by the rules above."""
        worst_B, best_B = self.finished.score_BJ[:, -1], self.log_p_BK[:, 0]
        behind_B = worst_B >= best_B / self.settings.penalty(max(1, self.length))
        enough_B = (self.finished.count_B >= self.beams) & behind_B
        hopeless_B = worst_B >= best_B / self.ceiling_B
        return enough_B | hopeless_B | (self.limit_B <= self.length)

    def select(self, sentences: Int[Tensor, "A"]) -> "Beam":
        """Keep only these sentences."""
        return replace(
            self,
            tokens_BKT=self.tokens_BKT[sentences],
            log_p_BK=self.log_p_BK[sentences],
            finished=self.finished.select(sentences),
            limit_B=self.limit_B[sentences],
            ceiling_B=self.ceiling_B[sentences],
        )

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The J best of each sentence: those that ended, then those that came to the maximum length."""
        going_BK = self.log_p_BK / self.settings.penalty(self.length)
        ended = _listed(self.finished.tokens_BJT, self.finished.score_BJ, self.finished.log_p_BJ)
        going = _listed(self.tokens_BKT, going_BK, self.log_p_BK)
        return [list(islice([*first, *then], self.settings.nbest)) for first, then in zip(ended, going, strict=True)]


def _greatest(settings: Settings, limit: int) -> float:
    return max(settings.penalty(length) for length in range(1, limit + 1))


def _pick(x_BW: Shaped[Tensor, "B W *rest"], places_BI: Int[Tensor, "B I"]) -> Shaped[Tensor, "B I *rest"]:
    """I of the W items of each sentence."""
    sentences = torch.arange(x_BW.shape[0], device=x_BW.device).unsqueeze(1)
    return x_BW[sentences, places_BI]


def _listed(tokens_BWT: Tensor, score_BW: Tensor, log_p_BW: Tensor) -> list[list[Hypothesis]]:
    """The possible ones among W hypotheses of each sentence; asks the device."""
    rows = zip(tokens_BWT[:, :, 1:].tolist(), score_BW.tolist(), log_p_BW.tolist(), strict=True)
    return [[Hypothesis.of(*found) for found in zip(*row, strict=True) if math.isfinite(found[1])] for row in rows]
