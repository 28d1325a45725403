"""Sampling in slots: a random token for each row at every step, in place; the rules are `decode.frontiers.sampling`.

The uniform numbers of a sentence are drawn when it is admitted, so that a recorded step only reads them.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import END
from heedful.decode.frontiers.sampling import draw, uniforms
from heedful.decode.frontiers.token_scores import normaliser
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.constraints import ConstraintsInSlots
from heedful.decode.slots.greedy import GreedyInSlots
from heedful.models.transformer.slots import Slots


class SamplingInSlots(GreedyInSlots):
    """One row per slot, which continues with a random token until that is `</s>`."""

    def __init__(
        self, slots: Slots, settings: SearchSettings, vocab_size: int, constraints: ConstraintsInSlots
    ) -> None:
        super().__init__(slots, settings, vocab_size, constraints)
        self._sampling = settings.sampling or Sampling()
        count, device = len(slots.positions_S), slots.positions_S.device
        self._uniform_SP = torch.zeros(count, slots.room + 2, dtype=torch.float64, device=device)
        self._end_V = torch.arange(vocab_size, device=device) == END

    def admit(
        self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None = None, seed: int = 0
    ) -> None:
        """Start with `<s>`, or the given first token, and draw the numbers for all steps."""
        super().admit(slots, queries, firsts, seed)
        steps = max(query.limit for query in queries)
        drawn = uniforms(replace(self._sampling, seed=seed), [query.drawn_from for query in queries], steps)
        self._uniform_SP[slots, :steps] = torch.from_numpy(drawn[:, 0]).to(slots.device)

    def _choose(
        self, logits_RV: Float[Tensor, "R V"], ends_R: Bool[Tensor, "R"]
    ) -> tuple[Float[Tensor, "R"], Int[Tensor, "R"]]:
        scores_RV = logits_RV.float()
        greatest_R1, log_sum_R1 = normaliser(scores_RV)
        constrained_RV = self._constraints.scores(logits_RV, self._allowed_V, ends_R)
        scores_RV = scores_RV if constrained_RV is None else constrained_RV
        allowed_RV = self._allowed_V & (~self._end_V | ends_R.unsqueeze(1))
        scores_RV = scores_RV.masked_fill(~allowed_RV, -torch.inf)
        uniform_R = self._uniform_SP.gather(1, self.length_S.unsqueeze(1)).squeeze(1)
        tokens_R1 = draw(scores_RV, uniform_R, self._sampling).unsqueeze(1)
        log_p_R1 = scores_RV.gather(1, tokens_R1) - greatest_R1 - log_sum_R1
        return log_p_R1.squeeze(1), tokens_R1.squeeze(1)
