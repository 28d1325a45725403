"""Attention of many short sequences, straight on the packed layout.

    y_i = sum_j p_ij v_j,   p_ij = softmax_j(q_i . k_j / sqrt(D)),   sentence by sentence, head by head

Flash attention works in blocks of 128 queries: a sentence of 27 tokens leaves most of a block empty. Here a program
owns one head of one sentence and walks over blocks of `BLOCK` tokens, so that a short sentence is one small block.
Scores are never written to memory: the backward pass computes them again from q, k and the log of each row's sum of
exponentials.

    dv_j = sum_i p_ij dy_i        dp_ij = dy_i . v_j          ds_ij = p_ij (dp_ij - sum_j p_ij dp_ij) / sqrt(D)
    dk_j = sum_i ds_ij q_i        dq_i = sum_j ds_ij k_j      (sum_j p_ij dp_ij = dy_i . y_i)

The grid has a program for every sentence that the layout has room for; those without tokens end at once. It depends on
shapes alone, so that the launch can be captured in a CUDA graph. Dropped weights are drawn from (seed, head, query,
key): the backward pass draws the same again. Nothing is added up by two programs: results are the same to the bit.

The reference is `backends.explicit`.
"""

from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK: Final = 32  # tokens of a block: most sentences are one or two
_WARPS: Final = 2


@triton.jit
def _keep(seed, head, rows, columns, heads, dropout):
    """True where a weight is kept; `rows` and `columns` are places in the packed batch."""
    place = (rows[:, None].to(tl.int64) * heads + head) * 2654435761 + columns[None, :]
    return tl.rand(seed, place.to(tl.int32)) >= dropout


@triton.jit
def _forward(
    q, k, v, y, sums, query_offsets, key_offsets, seed, scale, dropout,
    q_row, q_head, k_row, k_head, v_row, v_head, y_row, y_head, heads,
    CAUSAL: tl.constexpr, DROPS: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    head, sentence = tl.program_id(0), tl.program_id(1)  # neighbours read neighbouring bytes
    q_first, k_first = tl.load(query_offsets + sentence), tl.load(key_offsets + sentence)
    q_count = tl.load(query_offsets + sentence + 1) - q_first
    k_count = tl.load(key_offsets + sentence + 1) - k_first
    place, column = tl.arange(0, BLOCK), tl.arange(0, ROOM)
    inside = column[None, :] < WIDTH
    drawn = tl.load(seed) if DROPS else 0
    for q_start in range(0, q_count, BLOCK):
        rows = q_start + place
        q_there = (rows[:, None] < q_count) & inside
        q_block = tl.load(q + (q_first + rows)[:, None] * q_row + head * q_head + column[None, :], q_there, 0.0)
        greatest = tl.full((BLOCK,), -1.0e30, tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        weighted = tl.zeros((BLOCK, ROOM), tl.float32)
        last = tl.minimum(k_count, q_start + BLOCK) if CAUSAL else k_count
        for k_start in range(0, last, BLOCK):
            keys = k_start + place
            k_there = (keys[:, None] < k_count) & inside
            k_block = tl.load(k + (k_first + keys)[:, None] * k_row + head * k_head + column[None, :], k_there, 0.0)
            v_block = tl.load(v + (k_first + keys)[:, None] * v_row + head * v_head + column[None, :], k_there, 0.0)
            scores = tl.dot(q_block, tl.trans(k_block), input_precision="ieee") * scale
            seen = keys[None, :] < k_count
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None])
            scores = tl.where(seen, scores, -1.0e30)
            highest = tl.maximum(greatest, tl.max(scores, 1))
            shrink = tl.exp(greatest - highest)
            weights = tl.where(seen, tl.exp(scores - highest[:, None]), 0.0)
            total = total * shrink + tl.sum(weights, 1)
            if DROPS:
                kept = _keep(drawn, head, q_first + rows, keys, heads, dropout)
                weights = tl.where(kept, weights / (1 - dropout), 0.0)
            weighted = weighted * shrink[:, None] + tl.dot(weights.to(v_block.dtype), v_block, input_precision="ieee")
            greatest = highest
        total = tl.where(total == 0, 1.0, total)  # a row without keys attends to nothing
        result = (weighted / total[:, None]).to(y.dtype.element_ty)
        tl.store(y + (q_first + rows)[:, None] * y_row + head * y_head + column[None, :], result, q_there)
        tl.store(sums + (q_first + rows) * heads + head, greatest + tl.log(total), rows < q_count)


@triton.jit
def _backward(
    q, k, v, y, dy, sums, dq, dk, dv, query_offsets, key_offsets, seed, scale, dropout,
    q_row, q_head, k_row, k_head, v_row, v_head, y_row, y_head, dy_row, dy_head,
    dq_row, dq_head, dk_row, dk_head, dv_row, dv_head, heads,
    CAUSAL: tl.constexpr, DROPS: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    head, sentence = tl.program_id(0), tl.program_id(1)  # neighbours read neighbouring bytes
    q_first, k_first = tl.load(query_offsets + sentence), tl.load(key_offsets + sentence)
    q_count = tl.load(query_offsets + sentence + 1) - q_first
    k_count = tl.load(key_offsets + sentence + 1) - k_first
    place, column = tl.arange(0, BLOCK), tl.arange(0, ROOM)
    inside = column[None, :] < WIDTH
    drawn = tl.load(seed) if DROPS else 0
    alone = (q_count <= BLOCK) & (k_count <= BLOCK) & (k_count > 0)  # one block has everything: dq comes with dk and dv
    for k_start in range(0, k_count, BLOCK):  # dk and dv of a block of keys, over all queries
        keys = k_start + place
        k_there = (keys[:, None] < k_count) & inside
        k_block = tl.load(k + (k_first + keys)[:, None] * k_row + head * k_head + column[None, :], k_there, 0.0)
        v_block = tl.load(v + (k_first + keys)[:, None] * v_row + head * v_head + column[None, :], k_there, 0.0)
        dk_block = tl.zeros((BLOCK, ROOM), tl.float32)
        dv_block = tl.zeros((BLOCK, ROOM), tl.float32)
        begin = k_start if CAUSAL else 0
        for q_start in range(begin, q_count, BLOCK):
            rows = q_start + place
            weights, dscores, q_block, dy_block = _block(
                q, y, dy, sums, k_block, v_block, rows, keys, q_first, q_count, k_count, head, drawn, scale, dropout,
                q_row, q_head, y_row, y_head, dy_row, dy_head, heads, column, inside, CAUSAL, DROPS,
            )  # fmt: skip
            dv_block += tl.dot(tl.trans(weights), dy_block, input_precision="ieee")
            dk_block += tl.dot(tl.trans(dscores), q_block, input_precision="ieee")
            if alone:
                dq_block = tl.dot(dscores, k_block, input_precision="ieee")
                dq_place = dq + (q_first + rows)[:, None] * dq_row + head * dq_head + column[None, :]
                tl.store(dq_place, dq_block.to(dq.dtype.element_ty), (rows[:, None] < q_count) & inside)
        dk_place = dk + (k_first + keys)[:, None] * dk_row + head * dk_head + column[None, :]
        dv_place = dv + (k_first + keys)[:, None] * dv_row + head * dv_head + column[None, :]
        tl.store(dk_place, dk_block.to(dk.dtype.element_ty), k_there)
        tl.store(dv_place, dv_block.to(dv.dtype.element_ty), k_there)
    for q_start in range(0, tl.where(alone, 0, q_count), BLOCK):  # dq of a block of queries, over all keys
        rows = q_start + place
        dq_block = tl.zeros((BLOCK, ROOM), tl.float32)
        last = tl.minimum(k_count, q_start + BLOCK) if CAUSAL else k_count
        for k_start in range(0, last, BLOCK):
            keys = k_start + place
            k_there = (keys[:, None] < k_count) & inside
            k_block = tl.load(k + (k_first + keys)[:, None] * k_row + head * k_head + column[None, :], k_there, 0.0)
            v_block = tl.load(v + (k_first + keys)[:, None] * v_row + head * v_head + column[None, :], k_there, 0.0)
            _, dscores, _, _ = _block(
                q, y, dy, sums, k_block, v_block, rows, keys, q_first, q_count, k_count, head, drawn, scale, dropout,
                q_row, q_head, y_row, y_head, dy_row, dy_head, heads, column, inside, CAUSAL, DROPS,
            )  # fmt: skip
            dq_block += tl.dot(dscores, k_block, input_precision="ieee")
        q_there = (rows[:, None] < q_count) & inside
        dq_place = dq + (q_first + rows)[:, None] * dq_row + head * dq_head + column[None, :]
        tl.store(dq_place, dq_block.to(dq.dtype.element_ty), q_there)


@triton.jit
def _block(
    q, y, dy, sums, k_block, v_block, rows, keys, q_first, q_count, k_count, head, drawn, scale, dropout,
    q_row, q_head, y_row, y_head, dy_row, dy_head, heads, column, inside, CAUSAL: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """The weights of a block of queries and keys, and the gradients of their scores."""
    there = (rows[:, None] < q_count) & inside
    q_block = tl.load(q + (q_first + rows)[:, None] * q_row + head * q_head + column[None, :], there, 0.0)
    y_block = tl.load(y + (q_first + rows)[:, None] * y_row + head * y_head + column[None, :], there, 0.0)
    dy_block = tl.load(dy + (q_first + rows)[:, None] * dy_row + head * dy_head + column[None, :], there, 0.0)
    log_sum = tl.load(sums + (q_first + rows) * heads + head, rows < q_count, 0.0)
    seen = (keys[None, :] < k_count) & (rows[:, None] < q_count)
    if CAUSAL:
        seen = seen & (keys[None, :] <= rows[:, None])
    scores = tl.dot(q_block, tl.trans(k_block), input_precision="ieee") * scale
    weights = tl.where(seen, tl.exp(scores - log_sum[:, None]), 0.0)
    dweights = tl.dot(dy_block, tl.trans(v_block), input_precision="ieee")
    used = weights
    if DROPS:
        kept = _keep(drawn, head, q_first + rows, keys, heads, dropout)
        used = tl.where(kept, weights / (1 - dropout), 0.0)
        dweights = tl.where(kept, dweights / (1 - dropout), 0.0)
    row_sum = tl.sum(dy_block.to(tl.float32) * y_block.to(tl.float32), 1)
    dscores = weights * (dweights - row_sum[:, None]) * scale
    return used.to(q_block.dtype), dscores.to(q_block.dtype), q_block, dy_block


@torch.library.custom_op("heedful::short_attention", mutates_args=())
def short_attention(
    q_NHD: Tensor,
    k_MHD: Tensor,
    v_MHD: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    seed: Tensor,
    causal: bool,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """Return the attended values and the log of each row's sum of exponentials; `seed` is one int64 on the device."""
    tokens, heads, width = q_NHD.shape
    y = q_NHD.new_empty(tokens, heads, width)
    sums = q_NHD.new_empty((tokens, heads), dtype=torch.float32)
    _forward[(heads, query_offsets.shape[0] - 1)](
        q_NHD, k_MHD, v_MHD, y, sums, query_offsets, key_offsets, seed, width**-0.5, dropout,
        *_steps(q_NHD, k_MHD, v_MHD, y), heads,
        CAUSAL=causal, DROPS=dropout > 0, **_sizes(width),
    )  # fmt: skip
    return y, sums


@short_attention.register_fake
def _shapes(
    q_NHD: Tensor,
    k_MHD: Tensor,
    v_MHD: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    seed: Tensor,
    causal: bool,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    tokens, heads, width = q_NHD.shape
    return q_NHD.new_empty(tokens, heads, width), q_NHD.new_empty((tokens, heads), dtype=torch.float32)


@torch.library.custom_op("heedful::short_attention_backward", mutates_args=())
def short_attention_backward(
    dy: Tensor,
    q_NHD: Tensor,
    k_MHD: Tensor,
    v_MHD: Tensor,
    y: Tensor,
    sums: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    seed: Tensor,
    causal: bool,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the queries, keys and values."""
    heads, width = q_NHD.shape[1:]
    dq, dk, dv = (x.new_empty(x.shape) for x in (q_NHD, k_MHD, v_MHD))
    _backward[(heads, query_offsets.shape[0] - 1)](
        q_NHD, k_MHD, v_MHD, y, dy, sums, dq, dk, dv, query_offsets, key_offsets, seed, width**-0.5, dropout,
        *_steps(q_NHD, k_MHD, v_MHD, y, dy, dq, dk, dv), heads,
        CAUSAL=causal, DROPS=dropout > 0, **_sizes(width),
    )  # fmt: skip
    return dq, dk, dv


@short_attention_backward.register_fake
def _gradient_shapes(
    dy: Tensor,
    q_NHD: Tensor,
    k_MHD: Tensor,
    v_MHD: Tensor,
    y: Tensor,
    sums: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    seed: Tensor,
    causal: bool,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = (x.new_empty(x.shape) for x in (q_NHD, k_MHD, v_MHD))
    return dq, dk, dv


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, query_offsets, key_offsets, seed, causal, dropout = inputs
    ctx.save_for_backward(q, k, v, *output, query_offsets, key_offsets, seed)
    ctx.causal, ctx.dropout = causal, dropout


def _differentiate(ctx: Any, dy: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, y, sums, query_offsets, key_offsets, seed = ctx.saved_tensors
    gradients = short_attention_backward(
        dy, q, k, v, y, sums, query_offsets, key_offsets, seed, ctx.causal, ctx.dropout
    )
    return *gradients, None, None, None, None, None


short_attention.register_autograd(_differentiate, setup_context=_save)


def _steps(*tensors: Tensor) -> list[int]:
    """The distances between rows and between heads; the values of a head stand side by side."""
    return [step for x in tensors for step in x.stride()[:2]]


def _sizes(width: int) -> dict[str, int]:
    return {"WIDTH": width, "ROOM": max(16, triton.next_power_of_2(width)), "BLOCK": BLOCK, "num_warps": _WARPS}
