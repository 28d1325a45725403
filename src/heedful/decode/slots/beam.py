"""Beam search in slots: the rules of `decode.frontiers.beam`, on buffers that never move (`nn.decoding.beam_step`)."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.frontiers.banks import share_in_slots
from heedful.decode.hypothesis import Hypothesis, greatest_penalty
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.frontier import SlotFrontier
from heedful.models.transformer.slots import Slots
from heedful.nn.decoding.beam_step import beam_step, trace
from heedful.nn.decoding.best_tokens import best_tokens
from heedful.nn.kernels.beam_state import BeamState


class BeamInSlots(SlotFrontier):
    """The K best unfinished hypotheses of each slot, best first, and the J best finished ones."""

    def __init__(self, slots: Slots, settings: SearchSettings, vocab_size: int, prefixed: bool = False) -> None:
        super().__init__(slots, settings, vocab_size, prefixed)
        penalties = [settings.penalty(max(1, length)) for length in range(slots.room + 2)]
        self._state = BeamState.idle(
            slots.ancestors_SKP, slots.positions_S, settings.nbest, penalties, settings.min_length, END
        )
        self.last_R, self.done_S = self._state.last_SK.view(-1), self._state.done_S

    def admit(
        self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None = None, seed: int = 0
    ) -> None:
        """Start with one hypothesis per slot: `<s>`, or the given first token."""
        limits = [query.limit for query in queries]
        ceilings = [greatest_penalty(self.settings.penalty, limit) for limit in limits]
        device = slots.device
        self._state.begin(
            slots,
            torch.tensor(limits, device=device),
            torch.tensor(ceilings, dtype=torch.float64, device=device),
            BEGIN,
        )
        if firsts is not None:
            self._state.last_SK[slots] = torch.tensor(firsts, device=device).unsqueeze(1)
        self.constraints.admit(slots, queries, firsts)
        if self.constraints.sharing is not None:
            self._state.shared_S[slots] = self.constraints.sharing.requires_B[slots]

    def grow(self, logits_RV: Float[Tensor, "R V"]) -> None:
        """Rank the continuations; finish those that end, and continue with the others."""
        state, count = self._state, 2 * self.settings.beam
        scores_RV = self.constraints.scores(logits_RV, self.allowed_V, state.ends_R)
        scores_RC, tokens_RC, sums_R = best_tokens(logits_RV, count, self.allowed_V, state.ends_R, END, scores_RV)
        if self.constraints.sharing is not None and scores_RV is not None:
            best_RC, order_RC = scores_RC.topk(count, dim=1)
            scores_RC, tokens_RC = share_in_slots(
                scores_RV, state.log_p_SK, best_RC, tokens_RC.gather(1, order_RC), sums_R, self.constraints.sharing
            )
        beam_step(state, scores_RC, tokens_RC, sums_R)
        self.constraints.follow(state.rows_R, self.last_R)

    def hypotheses(self, slots: Int[Tensor, "A"]) -> list[list[Hypothesis]]:
        """Return the J best of each slot: those that ended, then those that were finished as they are."""
        state, nbest = self._state, self.settings.nbest
        lengths_AJ = state.ended_length_SJ[slots]
        tokens = trace(state, slots, state.ended_row_SJ[slots], lengths_AJ - 1).tolist()
        scores, log_ps = state.score_SJ[slots].tolist(), state.ended_log_p_SJ[slots].tolist()
        ended = [
            [
                Hypothesis(tuple(found[: length - 1]), score, log_p, complete=True)
                for found, length, score, log_p in zip(*row, strict=True)
                if score > -torch.inf
            ]
            for row in zip(tokens, lengths_AJ.tolist(), scores, log_ps, strict=True)
        ]
        missing = [index for index, found in enumerate(ended) if len(found) < nbest]
        if not missing:
            return ended
        slots = slots[missing]
        log_p_AI = state.log_p_SK[slots][:, :nbest]  # unfinished ones have one length, and are in their order
        lengths_AI = state.length_S[slots].unsqueeze(1).expand(log_p_AI.shape)
        rows_AI = torch.arange(log_p_AI.shape[1], device=slots.device).expand(log_p_AI.shape)
        tokens, lengths = trace(state, slots, rows_AI, lengths_AI).tolist(), state.length_S[slots].tolist()
        for index, some, length, log_ps in zip(missing, tokens, lengths, log_p_AI.tolist(), strict=True):
            penalty = self.settings.penalty(max(1, length))
            ended[index] += [
                Hypothesis(tuple(row[:length]), log_p / penalty, log_p, complete=False)
                for row, log_p in zip(some, log_ps, strict=True)
                if log_p > -torch.inf
            ]
        return [found[:nbest] for found in ended]
