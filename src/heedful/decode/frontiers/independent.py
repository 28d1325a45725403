"""Rows that grow independently: one token is chosen for each, the best or a random one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import END, PAD
from heedful.decode.constraints.protocol import OfSentences, follow
from heedful.decode.frontiers.rows import Frontier
from heedful.decode.frontiers.token_scores import Draws, Scores
from heedful.decode.settings import SearchSettings


@dataclass(frozen=True)
class Greedy(OfSentences):
    """Chooses the best token of each row: what a beam of one finds with any length penalty.

    A beam of one with a coverage penalty continues longer: the best token may end a sentence before it is covered.
    """

    def choose(self, scores: Scores, step: int) -> tuple[Float[Tensor, "R"], Int[Tensor, "R"]]:
        """Return the log P and the token of each row; minus infinity and any token where no token may follow."""
        log_p_R1, tokens_R1 = scores.best(1)
        return log_p_R1.squeeze(1), tokens_R1.squeeze(1)


@dataclass(frozen=True, eq=False)
class IndependentRows(Frontier):
    """K rows per sentence, in a fixed order. A row that is over, by `</s>` or because no token may follow, stays."""

    over_BK: Bool[Tensor, "B K"]
    chooser: Greedy | Draws = Greedy()

    def delayed(self, steps: int) -> "IndependentRows":
        """See `Frontier.delayed`."""
        chooser = self.chooser.delayed(steps) if isinstance(self.chooser, Draws) else self.chooser
        return replace(super().delayed(steps), chooser=chooser)

    @classmethod
    def _start(cls, limits: Sequence[int], settings: SearchSettings, device: torch.device) -> Mapping[str, Any]:
        return {"over_BK": torch.zeros((len(limits), settings.rows), dtype=torch.bool, device=device)}

    def extend(
        self, logits_RV: Float[Tensor, "R V"], attention_RL: Float[Tensor, "R L"] | None
    ) -> tuple["IndependentRows", None]:
        """Choose a token for each row that is not over."""
        scores = Scores.of(logits_RV, self.constraints, self.tokens_BKT.flatten(0, 1), self.ranking)
        log_p_BK, last_BK = (chosen_R.view(-1, self.beams) for chosen_R in self.chooser.choose(scores, self.length))
        going_BK = ~self.over_BK & (log_p_BK > -math.inf)
        last_BK = last_BK.where(going_BK, PAD)
        extended = replace(
            self,
            constraints=follow(self.constraints, None, last_BK),
            tokens_BKT=torch.cat([self.tokens_BKT, last_BK.unsqueeze(2)], dim=2),
            log_p_BK=self.log_p_BK + log_p_BK.where(going_BK, 0.0),
            over_BK=~going_BK | (last_BK == END),
            attended=self.attended and self.attended.add(attention_RL, going_BK),
        )
        return extended, None

    @property
    def done_B(self) -> Bool[Tensor, "B"]:
        """Which sentences have no row that may grow."""
        return self.over_BK.all(1) | (self.limit_B <= self.length)
