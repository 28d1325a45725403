"""The kernel of `nn.decoding.tree_step`: one program per slot, and one launch per search step instead of fifteen."""

from typing import Final

import triton
import triton.language as tl
from jaxtyping import Int
from torch import Tensor

from heedful.nn.kernels.sizes import next_power_of_two

_BRACKETS: Final = 64  # columns of the stack per block


@triton.jit
def _step(
    rows, last, changes, counts, opened, which, width, labels,
    BEAMS: tl.constexpr, BEAM_ROOM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    beam = tl.arange(0, BEAM_ROOM)
    there = beam < BEAMS
    row = tl.program_id(0).to(tl.int64) * BEAMS + beam
    parent = tl.load(rows + row, there, 0)
    change = changes + tl.load(last + row, there, 0) * 5
    before = counts + parent * 4
    theirs, mine = opened + parent * width, opened + row * width

    depth = tl.load(before + 2, there, 0)
    left = tl.maximum(tl.load(before, there, 0) + tl.load(change, there, 0), 0)
    fits = tl.maximum(tl.load(before + 1, there, 0) + tl.load(change + 1, there, 0), 0)
    now = tl.minimum(tl.maximum(depth + tl.load(change + 2, there, 0), 0), width - 2)
    part, label = tl.load(change + 3, there, 0), tl.load(change + 4, there, 0)
    innermost = tl.where(now > depth, label, tl.load(theirs + now, there, 0))
    state = tl.minimum(left, 1) * 12 + tl.minimum(fits, 1) * 6 + tl.minimum(now, 2) * 2 + part
    reach = (tl.max(depth, 0) + 2).to(tl.int32)
    tl.debug_barrier()  # all rows must be read before any is written
    tl.store(counts + row * 4, left, there)
    tl.store(counts + row * 4 + 1, fits, there)
    tl.store(counts + row * 4 + 2, now, there)
    tl.store(counts + row * 4 + 3, part, there)
    tl.store(which + row, state * labels + innermost, there)

    for start in range(0, reach, BLOCK):
        place = start + tl.arange(0, BLOCK)
        past = there[:, None] & (place[None, :] <= depth[:, None])
        values = tl.load(theirs[:, None] + place[None, :], past, 0)
        values = tl.where(past, values, label[:, None])
        tl.debug_barrier()
        written = there[:, None] & (place[None, :] <= depth[:, None] + 1)
        tl.store(mine[:, None] + place[None, :], values, written)


def tree_step_kernel(
    rows_R: Int[Tensor, "R"],
    last_R: Int[Tensor, "R"],
    changes_V5: Int[Tensor, "V 5"],
    counts_R4: Int[Tensor, "R 4"],
    open_RD: Int[Tensor, "R D"],
    which_R: Int[Tensor, "R"],
    labels: int,
    beams: int,
) -> None:
    """Extend all rows by their last tokens, in place. Stacks are copied up to their tops."""
    room = next_power_of_two(beams, 2)
    _step[(len(rows_R) // beams,)](
        rows_R, last_R, changes_V5, counts_R4, open_RD, which_R, open_RD.shape[1], labels,
        BEAMS=beams, BEAM_ROOM=room, BLOCK=_BRACKETS, num_warps=max(1, min(8, room // 8)),
    )  # fmt: skip
