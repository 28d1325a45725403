"""One step of beam search in slots, on fixed buffers: rank, finish and continue hypotheses, and mark slots as done.

    score(y) = log P(y | x) / penalty(length of y)      Wu et al. 2016, 7

The rules are those of `decode.frontiers.beam`. Hypotheses are kept as pointers: at every length, the token of each row
and the row that it continues. So nothing is copied when rows are reordered, and a finished hypothesis is just its last
row and its length.

Shape letters of this file: S  slots    P  positions that a slot has room for    C  candidates per row
                            W  ranked continuations (2K)    J  best finished hypotheses that are kept
"""

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.nn.kernels import use_kernels
from heedful.nn.kernels.beam_state import BeamState


def beam_step(
    state: BeamState,
    scores_RC: Float[Tensor, "R C"],
    tokens_RC: Int[Tensor, "R C"],
    sums_R: Float[Tensor, "R"],
) -> None:
    """Extend every slot that is not done by one token, in place.

    Candidates are scores with tokens, in any order and without duplicates, and include the best 2K of each row; `sums`
    is the log of the sum of exponentials of all scores of a row. In a slot whose beam is `shared` they are those that
    were chosen: at most K that end and K that continue.
    """
    if use_kernels(scores_RC):
        from heedful.nn.kernels.beam_step import beam_step_kernel

        beam_step_kernel(state, scores_RC, tokens_RC, sums_R)
        return
    slots, beams = state.log_p_SK.shape
    best = state.score_SJ.shape[1]
    log_p_RC = state.log_p_SK.view(-1, 1) + (scores_RC - sums_R.unsqueeze(1))
    log_p_RC = log_p_RC.where(log_p_RC == log_p_RC, -math.inf)  # NaN is not a continuation
    log_p_SW, places_SW = log_p_RC.view(slots, -1).topk(2 * beams, dim=1)
    rows_SW = (places_SW // scores_RC.shape[1]).to(torch.int32)
    last_SW = tokens_RC.view(slots, -1).gather(1, places_SW)
    alive_S = ~state.done_S
    going_S = alive_S & (log_p_SW[:, 0] != -math.inf)  # without a possible continuation the slot is done
    length_S1 = (state.length_S + going_S).unsqueeze(1)
    ends_SW = last_SW == state.end

    ranked_SW = state.shared_S.unsqueeze(1) | (torch.arange(2 * beams, device=ends_SW.device) < beams)
    ended_SW = log_p_SW.masked_fill(~(ends_SW & ranked_SW & going_S.unsqueeze(1)), -math.inf)
    score_SW = (ended_SW / _penalty(state, length_S1.squeeze(1)).unsqueeze(1)).float()
    score_SJ, chosen_SJ = torch.cat([state.score_SJ, score_SW], dim=1).topk(best, dim=1)
    for mine, new in (
        (state.ended_log_p_SJ, ended_SW),
        (state.ended_row_SJ, rows_SW),
        (state.ended_length_SJ, length_S1.expand(-1, 2 * beams)),
    ):
        mine.copy_(torch.cat([mine, new], dim=1).gather(1, chosen_SJ))
    state.score_SJ.copy_(score_SJ)
    state.count_S.add_(ended_SW.isfinite().sum(1))

    log_p_SK, going_SK = log_p_SW.masked_fill(ends_SW, -math.inf).topk(beams, dim=1)
    parents_SK, last_SK = rows_SW.gather(1, going_SK), last_SW.gather(1, going_SK)
    state.log_p_SK.copy_(log_p_SK.where(going_S.unsqueeze(1), state.log_p_SK))
    state.last_SK.copy_(last_SK.where(going_S.unsqueeze(1), state.last_SK))
    here_S = torch.arange(slots, device=going_S.device)[going_S]
    place_S = state.length_S[going_S].long()
    state.tokens_SPK[here_S, place_S] = last_SK[going_S].to(torch.int32)
    state.parents_SPK[here_S, place_S] = parents_SK[going_S]
    first_S1 = torch.arange(0, slots * beams, beams, device=going_S.device).unsqueeze(1)
    rows_SK = state.rows_R.view(slots, beams)
    rows_SK.copy_((first_S1 + parents_SK).where(going_S.unsqueeze(1), rows_SK))
    state.length_S.copy_(length_S1.squeeze(1))
    state.ends_R.copy_((length_S1 >= state.least_S.unsqueeze(1)).expand(-1, beams).flatten())

    worst_S, best_S = state.score_SJ[:, -1], state.log_p_SK[:, 0]
    enough_S = (state.count_S >= beams) & (worst_S >= best_S / _penalty(state, state.length_S.clamp(min=1)))
    over_S = enough_S | (worst_S >= best_S / state.ceiling_S) | (state.limit_S <= state.length_S)
    state.done_S.copy_(~going_S | over_S)

    onward_S = ~state.done_S
    inherited = state.ancestors_SKP.gather(1, parents_SK.unsqueeze(2).expand_as(state.ancestors_SKP).long())
    here_SK1 = state.positions_S.view(-1, 1, 1).expand(-1, beams, 1).long()
    inherited.scatter_(2, here_SK1, parents_SK.to(inherited.dtype).unsqueeze(2))
    state.ancestors_SKP.copy_(inherited.where(onward_S.view(-1, 1, 1), state.ancestors_SKP))
    state.positions_S.add_(onward_S)


def _penalty(state: BeamState, length_S: Int[Tensor, "S"]) -> Float[Tensor, "S"]:
    """Return the penalty of a length in each slot."""
    return state.penalties_SP.gather(1, length_S.long().unsqueeze(1)).squeeze(1)


def trace(
    tokens_APK: NDArray[np.int32],
    parents_APK: NDArray[np.int32],
    rows_AI: NDArray[np.int32],
    lengths_AI: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Return the tokens [A, I, T] of hypotheses with these last rows and lengths; 0 after the end of a hypothesis.

    Tokens and parents are those of A slots, up to the longest of the lengths.
    """
    longest = max(0, int(lengths_AI.max(initial=0)))
    found_AIT = np.zeros((*rows_AI.shape, longest), np.int64)
    row_AI, slot_A1 = rows_AI, np.arange(len(rows_AI))[:, None]
    for place in reversed(range(longest)):
        there_AI = place < lengths_AI
        found_AIT[:, :, place] = np.where(there_AI, tokens_APK[slot_A1, place, row_AI], 0)
        row_AI = np.where(there_AI, parents_APK[slot_A1, place, row_AI], row_AI)
    return found_AIT
