"""Greedy search in slots: the best token of each row at every step, in place."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.constraints import ConstraintsInSlots
from heedful.decode.slots.frontier import allowed_tokens
from heedful.models.transformer.slots import Slots
from heedful.nn.decoding.best_tokens import best_tokens


class GreedyInSlots:
    """One row per slot, which continues with its best token until that is `</s>`."""

    def __init__(
        self, slots: Slots, settings: SearchSettings, vocab_size: int, constraints: ConstraintsInSlots
    ) -> None:
        self.settings, self._positions_S = settings, slots.positions_S
        count, room, device = len(slots.positions_S), slots.room, slots.positions_S.device
        self._allowed_V = allowed_tokens(settings, vocab_size, device)
        self._constraints = constraints
        self.tokens_SP = torch.full((count, room + 2), BEGIN, device=device)  # from index 1 on
        self.log_p_S = torch.zeros(count, device=device)
        self.length_S = torch.zeros(count, dtype=torch.int64, device=device)
        self.limit_S = torch.ones(count, dtype=torch.int64, device=device)
        self._last_S = torch.full((count,), BEGIN, device=device)
        self._done_S = torch.ones(count, dtype=torch.bool, device=device)

    @property
    def last_R(self) -> Int[Tensor, "R"]:
        """The last token of each row."""
        return self._last_S

    @property
    def done_S(self) -> Bool[Tensor, "S"]:
        """Which slots need no further step."""
        return self._done_S

    def admit(
        self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None = None, seed: int = 0
    ) -> None:
        """Start with `<s>`, or the given first token."""
        for counter in (self.log_p_S, self.length_S, self._positions_S):
            counter[slots] = 0
        self.limit_S[slots] = torch.tensor([query.limit for query in queries], device=slots.device)
        self._last_S[slots] = BEGIN if firsts is None else torch.tensor(firsts, device=slots.device)
        self._done_S[slots] = False
        self._constraints.admit(slots, queries, firsts)

    def grow(self, logits_RV: Float[Tensor, "R V"]) -> None:
        """Take one token for each row."""
        log_p_S, last_S = self._choose(logits_RV, self.length_S >= self.settings.min_length)
        going_S = ~self._done_S & (log_p_S > -math.inf)
        self.log_p_S.add_(log_p_S.where(going_S, 0.0))
        self._last_S.copy_(last_S)
        index_S1 = (self.length_S + 1).unsqueeze(1)  # after the last token, where a slot that is done is not read
        self.tokens_SP.scatter_(1, index_S1, last_S.unsqueeze(1))
        self.length_S.add_(going_S)
        self._done_S.copy_(~going_S | (last_S == END) | (self.limit_S <= self.length_S))
        self._positions_S.add_(~self._done_S)  # a slot has one row: there is nothing to rearrange
        self._constraints.follow(None, last_S)

    def _choose(
        self, logits_RV: Float[Tensor, "R V"], ends_R: Bool[Tensor, "R"]
    ) -> tuple[Float[Tensor, "R"], Int[Tensor, "R"]]:
        """Return the log P and the token of each row; `</s>` only where a row may end."""
        scores_RV = self._constraints.scores(logits_RV, self._allowed_V, ends_R)
        scores_RC, tokens_RC, sums_R = best_tokens(logits_RV, 1, self._allowed_V, ends_R, END, scores_RV)
        score_R, best_R = scores_RC.max(1)
        return score_R - sums_R, tokens_RC.gather(1, best_R.unsqueeze(1)).squeeze(1)

    def hypotheses(self, slots: Int[Tensor, "A"]) -> list[list[Hypothesis]]:
        """Return the one hypothesis of each slot."""
        tokens, lengths = self.tokens_SP[slots].tolist(), self.length_S[slots].tolist()
        return [
            [Hypothesis.scored(row[1 : length + 1], log_p, self.settings.penalty, 0.0, None)]
            for row, length, log_p in zip(tokens, lengths, self.log_p_S[slots].tolist(), strict=True)
        ]
