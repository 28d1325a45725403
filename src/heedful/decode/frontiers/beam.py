"""Beam search: the K best hypotheses of each sentence grow together.

    score(y) = log P(y | x) / penalty(length of y) + coverage(x, y)      Wu et al. 2016, 7

A step ranks the K * V continuations of a sentence by log P. Of the best K, those that end with `</s>` are finished; the
best K that do not end continue. A sentence is done when

    - K of its hypotheses are finished, and the best that continues, scored at its present length and with everything
      covered, is no better than the last of its J best, or
    - no hypothesis that continues can still become one of its J best: log P only falls and coverage is never positive,
      so log P over the greatest penalty up to the maximum length bounds all later scores, or
    - the maximum length is reached, or constraints allow no token after any of its hypotheses: these are then finished
      as they are, and rank after all that ended by themselves.

The second rule is exact. The first loses little: stopping at K finished hypotheses alone, as is often done, drops the
best hypothesis of a confident model when poor ones end earlier. A beam as wide as the number of sequences equals brute
force.

Shape letters of this file: W  ranked continuations (2K)    J  best finished hypotheses that are kept (`nbest`)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import BEGIN, END, PAD
from heedful.decode.constraints.prefix import find_sharing
from heedful.decode.constraints.protocol import OfSentences, follow
from heedful.decode.frontiers.banks import share_out
from heedful.decode.frontiers.rows import Attended, Frontier, is_known_to_be_none, list_alignments, pick
from heedful.decode.frontiers.token_scores import Scores
from heedful.decode.hypothesis import Coverage, Hypothesis, greatest_penalty
from heedful.decode.settings import SearchSettings


@dataclass(frozen=True, eq=False)
class Finished(OfSentences):
    """The J best finished hypotheses of each sentence, best first; minus infinity where there are fewer."""

    tokens_BJT: Int[Tensor, "B J T"]  # `<s>` first; any tokens after `</s>`
    log_p_BJ: Float[Tensor, "B J"]
    score_BJ: Float[Tensor, "B J"]
    count_B: Int[Tensor, "B"]  # of all that were finished
    indices_BJT: Int[Tensor, "B J T-1"] | None  # of the source tokens that the tokens after `<s>` are aligned to

    @classmethod
    def none(cls, sentences: int, size: int, aligned: bool, device: torch.device) -> "Finished":
        """Start with none, and room for J = `size`."""
        nothing_BJ = torch.full((sentences, size), -math.inf, device=device)
        tokens_BJ1 = torch.full((sentences, size, 1), BEGIN, device=device)
        indices_BJ0 = tokens_BJ1[:, :, 1:] if aligned else None
        count_B = torch.zeros(sentences, dtype=torch.int64, device=device)
        return cls(tokens_BJ1, nothing_BJ, nothing_BJ, count_B, indices_BJ0)

    def add(
        self,
        tokens_BKT: Int[Tensor, "B K T"],
        log_p_BK: Float[Tensor, "B K"],
        score_BK: Float[Tensor, "B K"],
        indices_BKT: Int[Tensor, "B K T-1"] | None,
    ) -> "Finished":
        """Add hypotheses that just ended, all of one length; both numbers are minus infinity where one did not end."""
        score_BJ, best_BJ = torch.cat([self.score_BJ, score_BK], dim=1).topk(self.score_BJ.shape[1], dim=1)
        return Finished(
            _longer(self.tokens_BJT, tokens_BKT, best_BJ),
            pick(torch.cat([self.log_p_BJ, log_p_BK], dim=1), best_BJ),
            score_BJ,
            self.count_B + log_p_BK.isfinite().sum(1),
            None
            if self.indices_BJT is None or indices_BKT is None
            else _longer(self.indices_BJT, indices_BKT, best_BJ),
        )

    def wait(self) -> "Finished":
        """Add none in a step: what `add` does where no hypothesis ended."""
        longer_BJT, indices_BJT = F.pad(self.tokens_BJT, (0, 1)), self.indices_BJT
        return replace(
            self, tokens_BJT=longer_BJT, indices_BJT=None if indices_BJT is None else F.pad(indices_BJT, (0, 1))
        )

    def delayed(self, steps: int) -> "Finished":
        """Return the same hypotheses as if their sentences had begun some steps later, or earlier."""
        assert self.indices_BJT is None, "what is aligned joins no others"
        return replace(self, tokens_BJT=F.pad(self.tokens_BJT, (steps, 0)))

    def hypotheses(self, begun: Sequence[int]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, which began at these steps. Waits for the device."""
        rows = zip(
            self.tokens_BJT[:, :, 1:].tolist(),
            self.score_BJ.tolist(),
            self.log_p_BJ.tolist(),
            list_alignments(self.log_p_BJ, self.indices_BJT),
            strict=True,
        )
        return [
            [
                Hypothesis.of(tokens[first:], *found)
                for tokens, *found in zip(*row, strict=True)
                if math.isfinite(found[0])
            ]
            for first, row in zip(begun, rows, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Beam(Frontier):
    """The K best hypotheses of each sentence that did not end, best first, and those that did.

    A row whose last token is `<pad>` is one that no token was allowed to follow.
    """

    finished: Finished
    ceiling_B: Float[Tensor, "B"]  # the greatest penalty up to the limit

    def delayed(self, steps: int) -> "Beam":
        """See `Frontier.delayed`."""
        return replace(super().delayed(steps), finished=self.finished.delayed(steps))

    @classmethod
    def _start(cls, limits: Sequence[int], settings: SearchSettings, device: torch.device) -> Mapping[str, Any]:
        """Start with one hypothesis per sentence, and K - 1 impossible ones."""
        log_p_BK = torch.full((len(limits), settings.beam), -math.inf, device=device)
        log_p_BK[:, 0] = 0
        ceilings = [greatest_penalty(settings.penalty, limit) for limit in limits]
        return {
            "log_p_BK": log_p_BK,
            "finished": Finished.none(len(limits), settings.nbest, settings.aligned, device),
            "ceiling_B": torch.tensor(ceilings, dtype=torch.float64, device=device),
        }

    def extend(
        self, logits_RV: Float[Tensor, "R V"], attention_RL: Float[Tensor, "R L"] | None
    ) -> tuple["Beam", Int[Tensor, "B K"]]:
        """Rank the continuations; finish those that end, and continue with the others."""
        log_p_BW, parents_BW, last_BW = self.rank(logits_RV)
        attended = self.attended and self.attended.add(attention_RL, last_BW[:, :1] != PAD)
        ends_BW = last_BW == END
        log_p_BK, going_BK = log_p_BW.masked_fill(ends_BW, -math.inf).topk(self.beams, dim=1)
        parents_BK, last_BK = parents_BW.gather(1, going_BK), last_BW.gather(1, going_BK)
        if is_known_to_be_none(ends_BW):  # as in most steps
            finished = self.finished.wait()
        else:
            log_p_BX, parents_BX, last_BX, ends_BX = (
                x_BW[:, : self.beams] for x_BW in (log_p_BW, parents_BW, last_BW, ends_BW)
            )
            finished = self._finish(log_p_BX, parents_BX, last_BX, ends_BX, attended)
        extended = replace(
            self,
            constraints=follow(self.constraints, parents_BK, last_BK),
            tokens_BKT=self._longer(parents_BK, last_BK),
            log_p_BK=log_p_BK,
            finished=finished,
            attended=attended and attended.pick(parents_BK),
        )
        return extended, parents_BK

    def rank(
        self, logits_RV: Float[Tensor, "R V"]
    ) -> tuple[Float[Tensor, "B W"], Int[Tensor, "B W"], Int[Tensor, "B W"]]:
        """Return the log P of the best 2K continuations, the row each extends, and its last token.

        At most K end, one per row. Sentences that must contain something have those that `banks.py` chooses. Where no
        token may follow any row of a sentence, its rows are returned as they are, with `<pad>`.
        """
        scores = Scores.of(logits_RV, self.constraints, self.tokens_BKT.flatten(0, 1), self.ranking)
        log_p_RC, tokens_RC = scores.best(2 * self.beams)
        each = log_p_RC.shape[1]
        totals_BI = (self.log_p_BK.flatten().unsqueeze(1) + log_p_RC).view(-1, self.beams * each)
        log_p_BW, indices_BW = totals_BI.topk(2 * self.beams, dim=1)
        best = log_p_BW, indices_BW // each, tokens_RC.view(-1, self.beams * each).gather(1, indices_BW)
        sharing = find_sharing(self.constraints)
        if sharing is not None:
            shared = share_out(scores, self.log_p_BK, log_p_RC, tokens_RC, sharing)
            log_p_BW, parents_BW, last_BW = (
                torch.where(sharing.requires_B.unsqueeze(1), ours_BW, others_BW)
                for ours_BW, others_BW in zip(shared, best, strict=True)
            )
            best = log_p_BW, parents_BW, last_BW
        log_p_BW, parents_BW, last_BW = best
        stuck_B1 = log_p_BW.amax(1, keepdim=True) == -math.inf
        if is_known_to_be_none(stuck_B1):
            return best
        own_BW = F.pad(self.log_p_BK, (0, self.beams), value=-math.inf)
        rows_W = torch.arange(2 * self.beams, device=last_BW.device) % self.beams
        return (
            torch.where(stuck_B1, own_BW, log_p_BW),
            torch.where(stuck_B1, rows_W, parents_BW),
            last_BW.masked_fill(stuck_B1, PAD),
        )

    def _longer(self, parents_BI: Int[Tensor, "B I"], last_BI: Int[Tensor, "B I"]) -> Int[Tensor, "B I T"]:
        """Return the tokens of rows, each with one more."""
        return torch.cat([pick(self.tokens_BKT, parents_BI), last_BI.unsqueeze(2)], dim=2)

    def _finish(
        self,
        log_p_BK: Float[Tensor, "B K"],
        parents_BK: Int[Tensor, "B K"],
        last_BK: Int[Tensor, "B K"],
        ends_BK: Bool[Tensor, "B K"],
        attended: Attended | None,
    ) -> Finished:
        """Score those of the best continuations that end, and add them."""
        tokens_BKT, log_p_BK = self._longer(parents_BK, last_BK), log_p_BK.masked_fill(~ends_BK, -math.inf)
        score_BK = log_p_BK / self._penalty(self.length + 1)
        if attended is None:
            return self.finished.add(tokens_BKT, log_p_BK, score_BK, None)
        attended = attended.pick(parents_BK)
        score_BK = score_BK + Coverage(self.settings.coverage)(attended.sums_BKL)
        return self.finished.add(tokens_BKT, log_p_BK, score_BK, attended.indices_BKT)

    def _penalty(self, length: int) -> "float | Float[Tensor, 'B 1']":
        """Return the length penalty of hypotheses of this length, less the steps before their sentences began."""
        if self.begun_B is None:
            return self.settings.penalty(length)
        penalties = [self.settings.penalty(max(1, length - begun)) for begun in self.begun_B.tolist()]
        return torch.tensor(penalties, device=self.log_p_BK.device).unsqueeze(1)

    @property
    def done_B(self) -> Bool[Tensor, "B"]:
        """Which sentences are done, by the rules above."""
        worst_B, best_B = self.finished.score_BJ[:, -1], self.log_p_BK[:, 0]
        ahead_B = worst_B >= (self.log_p_BK[:, :1] / self._penalty(max(1, self.length)))[:, 0]
        enough_B = (self.finished.count_B >= self.beams) & ahead_B
        hopeless_B = worst_B >= best_B / self.ceiling_B
        stuck_B = self.tokens_BKT[:, 0, -1] == PAD
        return enough_B | hopeless_B | stuck_B | (self.limit_B <= self.length)

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Return the J best of each sentence: those that ended, then those that were finished as they are."""
        return [
            list(islice([*finished, *sorted(cut, key=lambda found: -found.score)], self.settings.nbest))
            for finished, cut in zip(self.finished.hypotheses(self.begun), super().hypotheses(), strict=True)
        ]


def _longer(x_BJT: Tensor, more_BKT: Tensor, best_BJ: Int[Tensor, "B J"]) -> Tensor:
    """Return the best of some rows, and of others that are one step longer."""
    return pick(torch.cat([F.pad(x_BJT, (0, 1)), more_BKT], dim=1), best_BJ)
