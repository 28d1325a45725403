"""Greedy search and sampling in slots: the best or a random token of each row at every step, in place.

The rules of sampling are those of `decode.frontiers`. The uniform numbers of a sentence are drawn when it is admitted,
so that a recorded step only reads them; so are its temperature and its filters.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.frontiers.token_scores import Filters, draw, normaliser, uniforms
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.frontier import SlotFrontier
from heedful.decode.ticket import Ticket
from heedful.models.transformer.slots import Slots
from heedful.nn.cuda_graphs import on_device
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
        self.least_S, self.limit_S = self.length_S.clone(), torch.ones_like(self.length_S)
        self.last_R = torch.full((count,), BEGIN, device=device)
        self.done_S = torch.ones(count, dtype=torch.bool, device=device)

    def admit(self, slots: Int[Tensor, "A"], tickets: Sequence[Ticket], firsts: Sequence[int] | None = None) -> None:
        """Start with `<s>`, or the given first token."""
        for counter in (self.log_p_S, self.length_S, self._positions_S):
            counter[slots] = 0
        limits = [ticket.query.limit for ticket in tickets]
        least = [ticket.settings.min_length for ticket in tickets]
        last = [BEGIN] * len(tickets) if firsts is None else firsts
        numbers_3A = on_device(np.array([limits, least, last]), slots.device)
        self.limit_S[slots], self.least_S[slots], self.last_R[slots] = numbers_3A
        self.done_S[slots] = False
        self.constraints.admit(slots, tickets, firsts)

    def grow(self, logits_RV: Float[Tensor, "R V"]) -> None:
        """Take one token for each row."""
        log_p_S, last_S = self._choose(logits_RV, self.length_S >= self.least_S)
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

    def results(self, slots: Int[Tensor, "A"], longest: int) -> tuple[Tensor, ...]:
        """Return the tokens, their number, and log P."""
        return self.tokens_SP[slots, 1 : longest + 1], self.length_S[slots], self.log_p_S[slots]

    @staticmethod
    def read(results: Sequence[Tensor], tickets: Sequence[Ticket]) -> list[list[Hypothesis]]:
        """Return the one hypothesis of each ticket."""
        rows = zip(*(part.tolist() for part in results), tickets, strict=True)
        return [
            [Hypothesis.scored(tokens[:length], log_p, ticket.settings.penalty, 0.0, None)]
            for tokens, length, log_p, ticket in rows
        ]

    @staticmethod
    def read_draft(results: Sequence[Tensor]) -> list[list[int]]:
        """Return the tokens of each slot."""
        tokens, lengths, _ = (part.tolist() for part in results)
        rows = (row[:length] for row, length in zip(tokens, lengths, strict=True))
        return [row[:-1] if row and row[-1] == END else row for row in rows]


class SamplingInSlots(GreedyInSlots):
    """One row per slot, which continues with a random token until that is `</s>`."""

    def __init__(self, slots: Slots, settings: SearchSettings, vocab_size: int, prefixed: bool = False) -> None:
        super().__init__(slots, settings, vocab_size, prefixed)
        count, device = len(slots.positions_S), slots.positions_S.device
        self._uniform_SP = torch.zeros(count, slots.room + 2, dtype=torch.float64, device=device)
        self._limits_3S1 = torch.ones(3, count, 1, dtype=torch.float64, device=device)
        self._top_k_S1 = torch.ones(count, 1, dtype=torch.int64, device=device)
        ranked = vocab_size if is_ranked(settings.sampling, vocab_size) else 0
        temperature_S1, top_p_S1, min_p_S1 = self._limits_3S1
        self._filters = Filters(temperature_S1, self._top_k_S1, top_p_S1, min_p_S1, ranked)
        self._end_V = torch.arange(vocab_size, device=device) == END

    def admit(self, slots: Int[Tensor, "A"], tickets: Sequence[Ticket], firsts: Sequence[int] | None = None) -> None:
        """Start with `<s>`, or the given first token, and draw the numbers for all steps."""
        super().admit(slots, tickets, firsts)
        steps = max(ticket.query.limit for ticket in tickets)
        each = [ticket.settings.sampling or Sampling() for ticket in tickets]
        drawn = [
            uniforms(one, [ticket.query.drawn_from], steps)[0, 0] for one, ticket in zip(each, tickets, strict=True)
        ]
        limits_3A = np.array([[one.temperature, one.top_p, one.min_p] for one in each]).T.copy()
        counts_A = np.array([Filters.of(one, len(self.allowed_V)).top_k for one in each])
        self._uniform_SP[slots, :steps] = on_device(np.stack(drawn), slots.device)
        self._limits_3S1[:, slots, 0] = on_device(limits_3A, slots.device)
        self._top_k_S1[slots, 0] = on_device(counts_A, slots.device)

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
        tokens_R1 = draw(scores_RV, uniform_R, self._filters).unsqueeze(1)
        log_p_R1 = scores_RV.gather(1, tokens_R1) - greatest_R1 - log_sum_R1
        return log_p_R1.squeeze(1), tokens_R1.squeeze(1)


def is_ranked(sampling: Sampling | None, vocab_size: int) -> bool:
    """Whether the tokens must be put in order, which takes longer than all else that sampling does."""
    return sampling is not None and Filters.of(sampling, vocab_size).ranked > 0
