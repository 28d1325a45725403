"""Greedy search and sampling in slots: the best or a random token of each row at every step, in place.

The rules of sampling are those of `decode.frontiers`. The uniform numbers of a sentence are drawn when it is admitted,
so that a recorded step only reads them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.frontiers.token_scores import draw, normaliser, uniforms
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.frontier import SlotFrontier
from heedful.models.transformer.slots import Slots
from heedful.nn.decoding.best_tokens import best_tokens


class GreedyInSlots(SlotFrontier):
    """One row per slot, which continues with its best token until that is `</s>`."""

    def __init__(self, slots: Slots, settings: SearchSettings, vocab_size: int, prefixed: bool = False) -> None:
        super().__init__(slots, settings, vocab_size, prefixed)
        self._positions_S = slots.positions_S
        count, room, device = len(slots.positions_S), slots.room, slots.positions_S.device
        self.tokens_SP = torch.full((count, room + 2), BEGIN, device=device)  # from index 1 on
        self.log_p_S = torch.zeros(count, device=device)
        self.length_S = torch.zeros(count, dtype=torch.int64, device=device)
        self.limit_S = torch.ones(count, dtype=torch.int64, device=device)
        self.last_R = torch.full((count,), BEGIN, device=device)
        self.done_S = torch.ones(count, dtype=torch.bool, device=device)

    def admit(
        self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None = None, seed: int = 0
    ) -> None:
        """Start with `<s>`, or the given first token."""
        for counter in (self.log_p_S, self.length_S, self._positions_S):
            counter[slots] = 0
        self.limit_S[slots] = torch.tensor([query.limit for query in queries], device=slots.device)
        self.last_R[slots] = BEGIN if firsts is None else torch.tensor(firsts, device=slots.device)
        self.done_S[slots] = False
        self.constraints.admit(slots, queries, firsts)

    def grow(self, logits_RV: Float[Tensor, "R V"]) -> None:
        """Take one token for each row."""
        log_p_S, last_S = self._choose(logits_RV, self.length_S >= self.settings.min_length)
        going_S = ~self.done_S & (log_p_S > -math.inf)
        self.log_p_S.add_(log_p_S.where(going_S, 0.0))
        self.last_R.copy_(last_S)
        index_S1 = (self.length_S + 1).unsqueeze(1)  # after the last token, where a slot that is done is not read
        self.tokens_SP.scatter_(1, index_S1, last_S.unsqueeze(1))
        self.length_S.add_(going_S)
        self.done_S.copy_(~going_S | (last_S == END) | (self.limit_S <= self.length_S))
        self._positions_S.add_(~self.done_S)  # a slot has one row: there is nothing to rearrange
        self.constraints.follow(None, last_S)

    def _choose(
        self, logits_RV: Float[Tensor, "R V"], ends_R: Bool[Tensor, "R"]
    ) -> tuple[Float[Tensor, "R"], Int[Tensor, "R"]]:
        """Return the log P and the token of each row; `</s>` only where a row may end."""
        scores_RV = self.constraints.scores(logits_RV, self.allowed_V, ends_R)
        scores_RC, tokens_RC, sums_R = best_tokens(logits_RV, 1, self.allowed_V, ends_R, END, scores_RV)
        score_R, best_R = scores_RC.max(1)
        return score_R - sums_R, tokens_RC.gather(1, best_R.unsqueeze(1)).squeeze(1)

    def hypotheses(self, slots: Int[Tensor, "A"]) -> list[list[Hypothesis]]:
        """Return the one hypothesis of each slot."""
        tokens, lengths = self.tokens_SP[slots].tolist(), self.length_S[slots].tolist()
        return [
            [Hypothesis.scored(row[1 : length + 1], log_p, self.settings.penalty, 0.0, None)]
            for row, length, log_p in zip(tokens, lengths, self.log_p_S[slots].tolist(), strict=True)
        ]


class SamplingInSlots(GreedyInSlots):
    """One row per slot, which continues with a random token until that is `</s>`."""

    def __init__(self, slots: Slots, settings: SearchSettings, vocab_size: int, prefixed: bool = False) -> None:
        super().__init__(slots, settings, vocab_size, prefixed)
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
        constrained_RV = self.constraints.scores(logits_RV, self.allowed_V, ends_R)
        scores_RV = scores_RV if constrained_RV is None else constrained_RV
        allowed_RV = self.allowed_V & (~self._end_V | ends_R.unsqueeze(1))
        scores_RV = scores_RV.masked_fill(~allowed_RV, -torch.inf)
        uniform_R = self._uniform_SP.gather(1, self.length_S.unsqueeze(1)).squeeze(1)
        tokens_R1 = draw(scores_RV, uniform_R, self._sampling).unsqueeze(1)
        log_p_R1 = scores_RV.gather(1, tokens_R1) - greatest_R1 - log_sum_R1
        return log_p_R1.squeeze(1), tokens_R1.squeeze(1)
