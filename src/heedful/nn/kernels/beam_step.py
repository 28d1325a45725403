"""The kernel of `nn.decoding.beam_step`: one program per slot, and one launch per search step instead of eighty."""

from typing import Final

import triton
import triton.language as tl
from torch import Tensor

from heedful.nn.kernels.beam_state import BeamState
from heedful.nn.kernels.sizes import next_power_of_two

_ANCESTORS: Final = 64  # positions per block


@triton.jit
def _at(values, places, place):
    """Return the value at an index of a row of values."""
    return tl.sum(tl.where(places == place, values, 0), 0)


@triton.jit
def _step(
    scores, candidates, sums, last, log_p, length, limit, ceiling, tokens, parents,
    score, ended_log_p, ended_row, ended_length, count, done, shared, ends, rows, ancestors, positions, penalties,
    least, width, room, END: tl.constexpr,
    BEAMS: tl.constexpr, BEAM_ROOM: tl.constexpr, WIDE_ROOM: tl.constexpr, CANDIDATE_ROOM: tl.constexpr,
    BEST: tl.constexpr, BEST_ROOM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    slot = tl.program_id(0)
    if tl.load(done + slot) == 0:
        beam, candidate = tl.arange(0, BEAM_ROOM), tl.arange(0, CANDIDATE_ROOM)
        turn, kept = tl.arange(0, WIDE_ROOM), tl.arange(0, BEST_ROOM)
        row_there = beam < BEAMS
        there = row_there[:, None] & (candidate[None, :] < width)
        row = slot * BEAMS + beam
        before = tl.load(length + slot)
        penalty = tl.load(penalties + slot.to(tl.int64) * (room + 2) + before + 1)
        own = tl.load(log_p + row, row_there, -float("inf"))
        total = tl.load(sums + row, row_there, 0.0)
        where = row[:, None].to(tl.int64) * width + candidate[None, :]
        values = own[:, None] + (tl.load(scores + where, there, -float("inf")) - total[:, None])
        values = tl.where(values == values, values, -float("inf"))  # NaN is not a continuation
        names = tl.load(candidates + where, there, 0).to(tl.int32)

        # The best 2K, best first.
        place = beam[:, None] * CANDIDATE_ROOM + candidate[None, :]
        top = tl.full((WIDE_ROOM,), -float("inf"), tl.float32)
        origin = tl.zeros((WIDE_ROOM,), tl.int32)
        name = tl.zeros((WIDE_ROOM,), tl.int32)
        for i in range(2 * BEAMS):
            best = tl.max(tl.max(values, 1), 0)
            found = tl.min(tl.min(tl.where(values == best, place, BEAM_ROOM * CANDIDATE_ROOM), 1), 0)
            here = place == found
            top = tl.where(turn == i, best, top)
            origin = tl.where(turn == i, found // CANDIDATE_ROOM, origin)
            name = tl.where(turn == i, tl.sum(tl.sum(tl.where(here, names, 0), 1), 0), name)
            values = tl.where(here, -float("inf"), values)

        if _at(top, turn, 0) == -float("inf"):  # no continuation is possible: the slot is done
            tl.store(done + slot, 1)
        else:
            now = before + 1
            ending = (name == END) & (turn < 2 * BEAMS)

            # Hypotheses that end are finished, if they are among the best K or were chosen; the J best are kept.
            new_log_p = tl.where(ending & ((turn < BEAMS) | (tl.load(shared + slot) != 0)), top, -float("inf"))
            new_score = (new_log_p / penalty).to(tl.float32)
            kept_there, kept_place = kept < BEST, slot * BEST + kept
            old_score = tl.load(score + kept_place, kept_there, -float("inf"))
            old_log_p = tl.load(ended_log_p + kept_place, kept_there, -float("inf"))
            old_row = tl.load(ended_row + kept_place, kept_there, 0)
            old_length = tl.load(ended_length + kept_place, kept_there, 0)
            finished = tl.load(count + slot) + tl.sum((new_log_p > -float("inf")).to(tl.int32), 0)
            out_score = tl.full((BEST_ROOM,), -float("inf"), tl.float32)
            out_log_p = tl.full((BEST_ROOM,), -float("inf"), tl.float32)
            out_row = tl.zeros((BEST_ROOM,), tl.int32)
            out_length = tl.zeros((BEST_ROOM,), tl.int32)
            worst = -float("inf")
            for j in range(BEST):
                old_best, new_best = tl.max(old_score, 0), tl.max(new_score, 0)
                old_at = tl.min(tl.where(old_score == old_best, kept, BEST_ROOM), 0)
                new_at = tl.min(tl.where(new_score == new_best, turn, WIDE_ROOM), 0)
                stays = old_best >= new_best
                worst = tl.where(stays, old_best, new_best)
                out_score = tl.where(kept == j, worst, out_score)
                chosen_log_p = tl.where(stays, _at(old_log_p, kept, old_at), _at(new_log_p, turn, new_at))
                chosen_row = tl.where(stays, _at(old_row, kept, old_at), _at(origin, turn, new_at))
                chosen_length = tl.where(stays, _at(old_length, kept, old_at), now)
                out_log_p = tl.where(kept == j, chosen_log_p, out_log_p)
                out_row = tl.where(kept == j, chosen_row, out_row)
                out_length = tl.where(kept == j, chosen_length, out_length)
                old_score = tl.where(kept == old_at, tl.where(stays, -float("inf"), old_score), old_score)
                new_score = tl.where(turn == new_at, tl.where(stays, new_score, -float("inf")), new_score)
            tl.store(score + kept_place, out_score, kept_there)
            tl.store(ended_log_p + kept_place, out_log_p, kept_there)
            tl.store(ended_row + kept_place, out_row, kept_there)
            tl.store(ended_length + kept_place, out_length, kept_there)
            tl.store(count + slot, finished)

            # The best K that do not end are continued: they are already in order.
            open_turn = ((name != END) & (turn < 2 * BEAMS)).to(tl.int32)
            rank = tl.cumsum(open_turn, 0) - 1
            chosen = (rank[None, :] == beam[:, None]) & (open_turn[None, :] != 0)
            any_chosen = tl.sum(chosen.to(tl.int32), 1) > 0
            next_log_p = tl.where(any_chosen, tl.sum(tl.where(chosen, top[None, :], 0.0), 1), -float("inf"))
            parent = tl.sum(tl.where(chosen, origin[None, :], 0), 1)
            token = tl.sum(tl.where(chosen, name[None, :], 0), 1)
            tl.store(log_p + row, next_log_p, row_there)
            tl.store(last + row, token.to(tl.int64), row_there)
            pointer = (slot.to(tl.int64) * room + before) * BEAMS + beam
            tl.store(tokens + pointer, token, row_there)
            tl.store(parents + pointer, parent, row_there)
            tl.store(length + slot, now)
            tl.store(ends + row, beam * 0 + now >= tl.load(least + slot), row_there)
            tl.store(rows + row, (slot * BEAMS + parent).to(tl.int64), row_there)

            ahead = _at(next_log_p, beam, 0)
            enough = (finished >= BEAMS) & (worst >= ahead / penalty)
            over = enough | (worst >= ahead / tl.load(ceiling + slot)) | (tl.load(limit + slot) <= now)
            if over:
                tl.store(done + slot, 1)
            else:
                position = tl.load(positions + slot)
                mine = ancestors + (slot.to(tl.int64) * BEAMS + beam) * room
                theirs = ancestors + (slot.to(tl.int64) * BEAMS + parent) * room
                time = tl.arange(0, BLOCK)
                for start in range(0, position + 1, BLOCK):
                    past = row_there[:, None] & (start + time < position)[None, :]
                    inherited = tl.load(theirs[:, None] + (start + time)[None, :], past, 0)
                    inherited = tl.where((start + time == position)[None, :], parent[:, None], inherited)
                    tl.debug_barrier()  # all rows must be read before any is written
                    written = row_there[:, None] & (start + time <= position)[None, :]
                    tl.store(mine[:, None] + (start + time)[None, :], inherited, written)
                tl.store(positions + slot, position + 1)


def beam_step_kernel(state: BeamState, scores_RC: Tensor, tokens_RC: Tensor, sums_R: Tensor) -> None:
    """Extend every slot that is not done by one token, in place."""
    slots, beams = state.log_p_SK.shape
    width, best = scores_RC.shape[1], state.score_SJ.shape[1]
    beam_room, candidate_room = next_power_of_two(beams, 2), next_power_of_two(width, 2)
    warps = max(1, min(16, beam_room * candidate_room // 1024))  # wide beams do not fit in the registers of one warp
    _step[(slots,)](
        scores_RC, tokens_RC, sums_R, state.last_SK, state.log_p_SK, state.length_S, state.limit_S, state.ceiling_S,
        state.tokens_SPK, state.parents_SPK, state.score_SJ, state.ended_log_p_SJ, state.ended_row_SJ,
        state.ended_length_SJ, state.count_S, state.done_S, state.shared_S, state.ends_R, state.rows_R,
        state.ancestors_SKP, state.positions_S, state.penalties_SP, state.least_S, width, state.tokens_SPK.shape[1],
        END=state.end, BEAMS=beams, BEAM_ROOM=beam_room, WIDE_ROOM=next_power_of_two(2 * beams, 2),
        CANDIDATE_ROOM=candidate_room, BEST=best, BEST_ROOM=next_power_of_two(best, 2), BLOCK=_ANCESTORS,
        num_warps=warps,
    )  # fmt: skip
