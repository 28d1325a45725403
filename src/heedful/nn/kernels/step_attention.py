"""The kernels of `nn.decoding.step_attention`: the attention of one decoding step, for use in CUDA graphs.

Grids depend on shapes only; positions, starts and lengths are read from the device.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from heedful.nn.kernels.sizes import count_multiprocessors, next_power_of_two, strides

TILE: Final = 2048  # elements of a block of past keys: two warps hold them in registers together with the values
# With fewer programs than multiprocessors, nothing hides the latency of a block: a program reads eight at once.
WIDE_TILE: Final = 8 * TILE
KEYS: Final = 32  # memory keys per block
_FAR: Final = 2**30  # more positions than any history has


@triton.jit
def _past(
    q, k, v, past_k, past_v, ancestors, positions, y, scale,
    q_row, q_head, k_row, k_head, v_row, v_head, y_row, y_head,
    cache_slot, cache_place, cache_beam, cache_head, ancestor_slot, ancestor_beam, heads, beams, room, radius,
    WIDTH: tl.constexpr, ROOM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    head, row = (
        tl.program_id(0) % heads,
        tl.program_id(0) // heads,
    )  # adjacent programs read adjacent heads of the cache
    slot, beam = row // beams, row % beams
    position = tl.load(positions + slot).to(tl.int32)
    place, column = tl.arange(0, BLOCK), tl.arange(0, ROOM)
    inside = column < WIDTH
    q_own = tl.load(q + row * q_row + head * q_head + column, inside, 0.0).to(tl.float32) * scale
    k_own = tl.load(k + row * k_row + head * k_head + column, inside, 0.0)
    v_own = tl.load(v + row * v_row + head * v_head + column, inside, 0.0)

    slot_start = slot.to(tl.int64) * cache_slot + head * cache_head
    if position < room:
        own = slot_start + position.to(tl.int64) * cache_place + beam * cache_beam + column
        tl.store(past_k + own, k_own, inside)
        tl.store(past_v + own, v_own, inside)

    greatest = tl.sum(q_own * k_own.to(tl.float32), 0)
    total = 1.0
    weighted = v_own.to(tl.float32)
    history = ancestors + slot.to(tl.int64) * ancestor_slot + beam * ancestor_beam
    last = tl.minimum(position, room)
    for start in range(tl.maximum(position - radius, 0), last, BLOCK):
        times = start + place
        past = times < last
        origin = tl.load(history + times, past, 0).to(tl.int64)
        where = slot_start + times.to(tl.int64) * cache_place + origin * cache_beam
        there = past[:, None] & inside[None, :]
        k_block = tl.load(past_k + where[:, None] + column[None, :], there, 0.0).to(tl.float32)
        v_block = tl.load(past_v + where[:, None] + column[None, :], there, 0.0).to(tl.float32)
        scores = tl.where(past, tl.sum(k_block * q_own[None, :], 1), -float("inf"))
        highest = tl.maximum(greatest, tl.max(scores, 0))
        shrink = tl.exp(greatest - highest)
        weights = tl.exp(scores - highest)
        total = total * shrink + tl.sum(weights, 0)
        weighted = weighted * shrink + tl.sum(weights[:, None] * v_block, 0)
        greatest = highest
    tl.store(y + row * y_row + head * y_head + column, (weighted / total).to(y.dtype.element_ty), inside)


@triton.jit
def _memory(
    q, k, v, starts, lengths, y, scale, q_row, q_head, k_row, k_head, v_row, v_head, y_row, y_head, heads, beams,
    WIDTH: tl.constexpr, ROOM: tl.constexpr, BEAMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    head, slot = tl.program_id(0) % heads, tl.program_id(0) // heads
    first = tl.load(starts + slot).to(tl.int64)
    length = tl.load(lengths + slot).to(tl.int32)
    place, column, beam = tl.arange(0, BLOCK), tl.arange(0, ROOM), tl.arange(0, BEAMS)
    inside = column[None, :] < WIDTH
    rows, row_there = slot * beams + beam, (beam[:, None] < beams) & inside
    q_block = tl.load(q + rows[:, None] * q_row + head * q_head + column[None, :], row_there, 0.0)
    greatest = tl.full((BEAMS,), -1.0e30, tl.float32)
    total = tl.zeros((BEAMS,), tl.float32)
    weighted = tl.zeros((BEAMS, ROOM), tl.float32)
    for start in range(0, length, BLOCK):
        keys = start + place
        seen = keys[None, :] < length
        there = (keys[:, None] < length) & inside
        k_block = tl.load(k + (first + keys)[:, None] * k_row + head * k_head + column[None, :], there, 0.0)
        v_block = tl.load(v + (first + keys)[:, None] * v_row + head * v_head + column[None, :], there, 0.0)
        scores = tl.dot(q_block, tl.trans(k_block), input_precision="ieee") * scale
        scores = tl.where(seen, scores, -1.0e30)
        highest = tl.maximum(greatest, tl.max(scores, 1))
        shrink = tl.exp(greatest - highest)
        weights = tl.where(seen, tl.exp(scores - highest[:, None]), 0.0)
        total = total * shrink + tl.sum(weights, 1)
        added = tl.dot(weights.to(v_block.dtype), v_block, input_precision="ieee")
        weighted = weighted * shrink[:, None] + added
        greatest = highest
    total = tl.where(total == 0, 1.0, total)  # an idle slot attends to nothing
    result = (weighted / total[:, None]).to(y.dtype.element_ty)
    tl.store(y + rows[:, None] * y_row + head * y_head + column[None, :], result, row_there)


def attend_past_kernel(
    q_RHD: Float[Tensor, "R H D"],
    k_RHD: Float[Tensor, "R H D"],
    v_RHD: Float[Tensor, "R H D"],
    cache_2SPKHD: Float[Tensor, "2 S P K H D"],
    ancestors_SKP: Int[Tensor, "S K P"],
    positions_S: Int[Tensor, "S"],
    radius: int | None = None,
) -> Float[Tensor, "R H D"]:
    """Compute `attend_past` with one program per row and head.

    The new key and value are read and written once. A row reads its history once, up to the position of the slot:
    unused room costs nothing.
    """
    rows, heads, width = q_RHD.shape
    _, _, room, beams, _, _ = cache_2SPKHD.shape
    past_k, past_v = cache_2SPKHD
    across = next_power_of_two(width, 16)
    few = rows * heads <= count_multiprocessors(q_RHD.device)
    y_RHD = torch.empty((rows, heads, width), dtype=q_RHD.dtype, device=q_RHD.device)
    _past[(rows * heads,)](
        q_RHD, k_RHD, v_RHD, past_k, past_v, ancestors_SKP, positions_S, y_RHD, width**-0.5,
        *strides(q_RHD, k_RHD, v_RHD, y_RHD), *past_k.stride()[:4], *ancestors_SKP.stride()[:2], heads, beams, room,
        _FAR if radius is None else radius, WIDTH=width, ROOM=across, BLOCK=(WIDE_TILE if few else TILE) // across,
        num_warps=8 if few else 2,
    )  # fmt: skip
    return y_RHD


def attend_memory_kernel(
    q_RHD: Float[Tensor, "R H D"],
    k_MHD: Float[Tensor, "M H D"],
    v_MHD: Float[Tensor, "M H D"],
    starts_S: Int[Tensor, "S"],
    lengths_S: Int[Tensor, "S"],
) -> Float[Tensor, "R H D"]:
    """Compute `attend_memory` with one program per slot and head: its beams share one read of keys and values."""
    rows, heads, width = q_RHD.shape
    slots = starts_S.shape[0]
    beams = rows // slots
    y_RHD = torch.empty((rows, heads, width), dtype=q_RHD.dtype, device=q_RHD.device)
    _memory[(slots * heads,)](
        q_RHD, k_MHD, v_MHD, starts_S, lengths_S, y_RHD, width**-0.5, *strides(q_RHD, k_MHD, v_MHD, y_RHD), heads,
        beams, WIDTH=width, ROOM=next_power_of_two(width, 16), BEAMS=next_power_of_two(beams, 16), BLOCK=KEYS,
        num_warps=4, num_stages=2,
    )  # fmt: skip
    return y_RHD
