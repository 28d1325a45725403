"""Beam search in slots: the rules of `decode.frontiers.beam`, on buffers that never move (`nn.decoding.beam_step`)."""

from collections.abc import Hashable, Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.frontiers.banks import share_in_slots
from heedful.decode.hypothesis import Hypothesis, LengthPenalty
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.frontier import SlotFrontier
from heedful.decode.ticket import Ticket
from heedful.models.transformer.slots import Slots
from heedful.nn.cuda_graphs import on_device
from heedful.nn.decoding.beam_step import beam_step, trace
from heedful.nn.decoding.best_tokens import best_tokens
from heedful.nn.kernels.beam_state import BeamState


class BeamInSlots(SlotFrontier):
    """The K best unfinished hypotheses of each slot, best first, and the J best finished ones."""

    def __init__(self, slots: Slots, settings: SearchSettings, vocab_size: int, prefixed: bool = False) -> None:
        super().__init__(slots, settings, vocab_size, prefixed)
        self._beam, self._room = settings.beam, slots.room
        self._state = BeamState.idle(slots.ancestors_SKP, slots.positions_S, settings.nbest, END)
        self.last_R, self.done_S = self._state.last_SK.view(-1), self._state.done_S

    def admit(self, slots: Int[Tensor, "A"], tickets: Sequence[Ticket], firsts: Sequence[int] | None = None) -> None:
        """Start with one hypothesis per slot: `<s>`, or the given first token."""
        limits = [ticket.query.limit for ticket in tickets]
        least = [ticket.settings.min_length for ticket in tickets]
        first = [BEGIN] * len(tickets) if firsts is None else firsts
        numbers_3A = on_device(np.array([limits, least, first]), slots.device)
        penalties = [_penalties_of(ticket.settings.penalty, ticket.query.limit + 1) for ticket in tickets]
        # Of lengths that a target may have; the rest of a row is never read.
        penalties_AP = np.stack([np.pad(some, (0, self._room + 2 - len(some)), mode="edge") for some in penalties])
        limits_A, least_A, firsts_A = numbers_3A
        self._state.begin(slots, limits_A, least_A, on_device(penalties_AP, slots.device), firsts_A)
        self.constraints.admit(slots, tickets, firsts)
        if self.constraints.sharing is not None:
            self._state.shared_S[slots] = self.constraints.sharing.requires_B[slots]

    def grow(self, logits_RV: Float[Tensor, "R V"]) -> None:
        """Rank the continuations; finish those that end, and continue with the others."""
        state, count = self._state, 2 * self._beam
        scores_RV = self.constraints.scores(logits_RV, self.allowed_V, state.ends_R)
        scores_RC, tokens_RC, sums_R = best_tokens(logits_RV, count, self.allowed_V, state.ends_R, END, scores_RV)
        if self.constraints.sharing is not None and scores_RV is not None:
            best_RC, order_RC = scores_RC.topk(count, dim=1)
            scores_RC, tokens_RC = share_in_slots(
                scores_RV, state.log_p_SK, best_RC, tokens_RC.gather(1, order_RC), sums_R, self.constraints.sharing
            )
        beam_step(state, scores_RC, tokens_RC, sums_R)
        self.constraints.follow(state.rows_R, self.last_R)

    def results(self, slots: Int[Tensor, "A"], longest: int) -> tuple[Tensor, ...]:
        """Return the pointers of all hypotheses, the J best that ended, and those that did not."""
        state = self._state
        return (
            state.tokens_SPK[slots, :longest],
            state.parents_SPK[slots, :longest],
            state.ended_row_SJ[slots],
            state.ended_length_SJ[slots],
            state.score_SJ[slots],
            state.ended_log_p_SJ[slots],
            state.length_S[slots],
            state.log_p_SK[slots],
        )

    @staticmethod
    def read(results: Sequence[Tensor], tickets: Sequence[Ticket]) -> list[list[Hypothesis]]:
        """Return the J best of each ticket: those that ended, then those that were finished as they are."""
        tokens, parents, rows, lengths, scores, log_ps, length, open_log_ps = (part.numpy() for part in results)
        traced = trace(tokens, parents, rows, lengths - 1).tolist()
        found = [
            [
                Hypothesis(tuple(one[: size - 1]), score, log_p, complete=True)
                for one, size, score, log_p in zip(*row, strict=True)
                if score > -np.inf
            ]
            for row in zip(traced, lengths.tolist(), scores.tolist(), log_ps.tolist(), strict=True)
        ]
        few = [index for index, ticket in enumerate(tickets) if len(found[index]) < ticket.settings.nbest]
        if few:
            opened = [part[few] for part in (tokens, parents, length, open_log_ps)]
            for index, unfinished in zip(few, _unfinished(*opened), strict=True):
                settings = tickets[index].settings
                found[index] += [
                    Hypothesis(tokens, log_p / settings.penalty(max(1, len(tokens))), log_p, complete=False)
                    for tokens, log_p in unfinished[: settings.nbest - len(found[index])]
                ]
        return found

    @staticmethod
    def read_draft(results: Sequence[Tensor]) -> list[list[int]]:
        """Return the best unfinished hypothesis of each slot."""
        tokens, parents, *_, length, log_p = (part.numpy() for part in results)
        return [list(some[0][0]) if some else [] for some in _unfinished(tokens, parents, length, log_p[:, :1])]


def _unfinished(
    tokens_APK: NDArray[np.int32],
    parents_APK: NDArray[np.int32],
    length_A: NDArray[np.int32],
    log_p_AI: NDArray[np.float32],
) -> list[list[tuple[tuple[int, ...], float]]]:
    """Return the tokens and log P of hypotheses that did not end, best first; they have one length, and no `</s>`."""
    lengths_AI = np.repeat(length_A[:, None], log_p_AI.shape[1], axis=1)
    rows_AI = np.broadcast_to(np.arange(log_p_AI.shape[1], dtype=np.int32), log_p_AI.shape)
    traced = trace(tokens_APK, parents_APK, rows_AI, lengths_AI).tolist()
    return [
        [(tuple(row[:size]), log_p) for row, log_p in zip(rows, log_ps, strict=True) if log_p > -np.inf]
        for rows, size, log_ps in zip(traced, length_A.tolist(), log_p_AI.tolist(), strict=True)
    ]


def _penalties_of(penalty: LengthPenalty, count: int) -> NDArray[np.float64]:
    return (_penalties if isinstance(penalty, Hashable) else _penalties.__wrapped__)(penalty, count)


@lru_cache(maxsize=1024)
def _penalties(penalty: LengthPenalty, count: int) -> NDArray[np.float64]:
    """Return the penalties of the lengths from 0, which counts as 1."""
    return np.array([penalty(max(1, length)) for length in range(count)])
