"""Attention for many short sequences, on the packed layout.

    y_i = sum_j p_ij v_j,   p_ij = softmax_j(q_i . k_j / sqrt(D)),   sentence by sentence, head by head

Flash attention works in blocks of 128 queries: a sentence of 27 tokens leaves most of a block empty. Here a program
computes one sentence and some of its heads. A sentence of up to 32 tokens is one block of 32, one of up to 64 is one
block of 64, and longer ones are processed in blocks of 64, distributed among programs; each class has its own launch,
which skips the sentences of the others. Scores are never written to memory: the backward pass computes them again.

    dv_j = sum_i p_ij dy_i        dp_ij = dy_i . v_j          ds_ij = p_ij (dp_ij - sum_j p_ij dp_ij) / sqrt(D)
    dk_j = sum_i ds_ij q_i        dq_i = sum_j ds_ij k_j      (sum_j p_ij dp_ij = dy_i . y_i)

The grid depends on shapes only, so that a launch can be captured in a CUDA graph. The dropout mask is a function of
(seed, head, query, key): the backward pass draws it again. No sum is split between programs: results are reproducible
bit by bit.

The reference is `backends.explicit`.
"""

from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from heedful.nn.kernels.sizes import next_power_of_two, strides

# By the tokens of a block that holds a whole sentence: heads per program, and compile options. Measured on an H200.
_WHOLE: Final[dict[int, dict[str, int]]] = {
    32: {"EACH": 4, "num_warps": 1, "num_stages": 1},
    64: {"EACH": 4, "num_warps": 4, "num_stages": 1},
}
_WALKED: Final[dict[str, int]] = {"BLOCK": 64, "num_warps": 4, "num_stages": 1}
_PART: Final = 128  # tokens of a long sentence per program
_FEWEST: Final = 24  # tokens per sentence when programs are counted: if sentences are shorter, programs take several


@triton.jit
def _keep(seed, head, rows, columns, heads, dropped):
    """Return True where a weight is kept; `rows` index the packed batch, `columns` the sentence of the keys.

    It hashes the indices, because Philox takes ten times as many operations: the key of a row is mixed once, and once
    more with every column.
    """
    drawn = _mix(seed.to(tl.uint32)) ^ (seed >> 32).to(tl.uint32)
    key = _mix((rows * heads + head).to(tl.uint32) ^ drawn)
    draws = _mix(key[:, None] + columns.to(tl.uint32)[None, :] * 0x9E3779B9)
    return (draws >> 1).to(tl.int32) >= dropped


@triton.jit
def _mix(x):
    """Apply a bijection on 32 bits in which each bit flips about half of the others ("lowbias32" by Wellons)."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _weights(
    q_block, k_block, rows, keys, q_count, k_count, scale,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    """Return the weights of a block that holds a whole sentence, and the log of each row's sum of exponentials."""
    seen = (keys[None, :] < k_count) & (rows[:, None] < q_count)
    if CAUSAL:
        seen = seen & (keys[None, :] <= rows[:, None])
    scores = tl.dot(q_block, tl.trans(k_block), input_precision="ieee") * scale
    scores = tl.where(seen, scores, -1.0e30)
    greatest = tl.max(scores, 1)
    weights = tl.where(seen, tl.exp(scores - greatest[:, None]), 0.0)
    total = tl.sum(weights, 1)
    total = tl.where(total == 0, 1.0, total)  # a row without keys attends to nothing
    return weights / total[:, None], greatest + tl.log(total)


@triton.jit
def _whole_forward(
    q, k, v, y, sums, query_offsets, key_offsets, seed, scale, dropped, enlarged, sentences,
    q_row, q_head, k_row, k_head, v_row, v_head, y_row, y_head, heads,
    CAUSAL: tl.constexpr, DROPS: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr,
    ABOVE: tl.constexpr, BLOCK: tl.constexpr, EACH: tl.constexpr,
):  # fmt: skip
    """Attend in sentences of more than ABOVE and up to BLOCK tokens on their longer side."""
    place, column = tl.arange(0, BLOCK), tl.arange(0, ROOM)
    inside = column[None, :] < WIDTH
    drawn = tl.load(seed) if DROPS else 0
    for sentence in range(tl.program_id(1), sentences, tl.num_programs(1)):
        q_first, k_first = tl.load(query_offsets + sentence), tl.load(key_offsets + sentence)
        q_count = tl.load(query_offsets + sentence + 1) - q_first
        k_count = tl.load(key_offsets + sentence + 1) - k_first
        longest = tl.maximum(q_count, k_count)
        if (longest > ABOVE) & (longest <= BLOCK) & (q_count > 0):
            q_there, k_there = (place[:, None] < q_count) & inside, (place[:, None] < k_count) & inside
            for head in range(tl.program_id(0) * EACH, tl.minimum(tl.program_id(0) * EACH + EACH, heads)):
                q_block = tl.load(
                    q + (q_first + place)[:, None] * q_row + head * q_head + column[None, :], q_there, 0.0
                )
                k_block = tl.load(
                    k + (k_first + place)[:, None] * k_row + head * k_head + column[None, :], k_there, 0.0
                )
                v_block = tl.load(
                    v + (k_first + place)[:, None] * v_row + head * v_head + column[None, :], k_there, 0.0
                )
                weights, log_sum = _weights(q_block, k_block, place, place, q_count, k_count, scale, CAUSAL)
                if DROPS:
                    kept = _keep(drawn, head, q_first + place, place, heads, dropped)
                    weights = tl.where(kept, weights * enlarged, 0.0)
                result = tl.dot(weights.to(v_block.dtype), v_block, input_precision="ieee")
                y_place = y + (q_first + place)[:, None] * y_row + head * y_head + column[None, :]
                tl.store(y_place, result.to(y.dtype.element_ty), q_there)
                tl.store(sums + (q_first + place) * heads + head, log_sum, place < q_count)


@triton.jit
def _whole_backward(
    q, k, v, dy, dq, dk, dv, query_offsets, key_offsets, seed, scale, dropped, enlarged, sentences,
    q_row, q_head, k_row, k_head, v_row, v_head, dy_row, dy_head, dq_row, dq_head, dk_row, dk_head, heads,
    CAUSAL: tl.constexpr, DROPS: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr,
    ABOVE: tl.constexpr, BLOCK: tl.constexpr, EACH: tl.constexpr,
):  # fmt: skip
    """Differentiate in the same sentences. All weights are computed again: neither y nor the sums are read."""
    place, column = tl.arange(0, BLOCK), tl.arange(0, ROOM)
    inside = column[None, :] < WIDTH
    drawn = tl.load(seed) if DROPS else 0
    for sentence in range(tl.program_id(1), sentences, tl.num_programs(1)):
        q_first, k_first = tl.load(query_offsets + sentence), tl.load(key_offsets + sentence)
        q_count = tl.load(query_offsets + sentence + 1) - q_first
        k_count = tl.load(key_offsets + sentence + 1) - k_first
        longest = tl.maximum(q_count, k_count)
        if (longest > ABOVE) & (longest <= BLOCK):
            q_there, k_there = (place[:, None] < q_count) & inside, (place[:, None] < k_count) & inside
            for head in range(tl.program_id(0) * EACH, tl.minimum(tl.program_id(0) * EACH + EACH, heads)):
                q_block = tl.load(
                    q + (q_first + place)[:, None] * q_row + head * q_head + column[None, :], q_there, 0.0
                )
                k_block = tl.load(
                    k + (k_first + place)[:, None] * k_row + head * k_head + column[None, :], k_there, 0.0
                )
                v_block = tl.load(
                    v + (k_first + place)[:, None] * v_row + head * v_head + column[None, :], k_there, 0.0
                )
                dy_place = dy + (q_first + place)[:, None] * dy_row + head * dy_head + column[None, :]
                dy_block = tl.load(dy_place, q_there, 0.0)
                weights, _ = _weights(q_block, k_block, place, place, q_count, k_count, scale, CAUSAL)
                dweights = tl.dot(dy_block, tl.trans(v_block), input_precision="ieee")
                used = weights
                if DROPS:
                    kept = _keep(drawn, head, q_first + place, place, heads, dropped)
                    used = tl.where(kept, weights * enlarged, 0.0)
                    dweights = tl.where(kept, dweights * enlarged, 0.0)
                row_sum = tl.sum(weights * dweights, 1)
                dscores = (weights * (dweights - row_sum[:, None]) * scale).to(q_block.dtype)
                dv_block = tl.dot(tl.trans(used.to(dy_block.dtype)), dy_block, input_precision="ieee")
                dk_block = tl.dot(tl.trans(dscores), q_block, input_precision="ieee")
                dq_block = tl.dot(dscores, k_block, input_precision="ieee")
                dq_place = (q_first + place)[:, None] * dq_row + head * dq_head + column[None, :]
                dk_place = (k_first + place)[:, None] * dk_row + head * dk_head + column[None, :]
                tl.store(dq + dq_place, dq_block.to(dq.dtype.element_ty), q_there)
                tl.store(dk + dk_place, dk_block.to(dk.dtype.element_ty), k_there)
                tl.store(dv + dk_place, dv_block.to(dv.dtype.element_ty), k_there)


@triton.jit
def _walked_forward(
    q, k, v, y, sums, query_offsets, key_offsets, seed, scale, dropped, enlarged, sentences,
    q_row, q_head, k_row, k_head, v_row, v_head, y_row, y_head, heads,
    CAUSAL: tl.constexpr, DROPS: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr,
    ABOVE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Attend in sentences of more than ABOVE tokens on their longer side; programs take their blocks in turn."""
    head, part, parts = tl.program_id(0), tl.program_id(2) * BLOCK, tl.num_programs(2) * BLOCK
    place, column = tl.arange(0, BLOCK), tl.arange(0, ROOM)
    inside = column[None, :] < WIDTH
    drawn = tl.load(seed) if DROPS else 0
    for sentence in range(tl.program_id(1), sentences, tl.num_programs(1)):
        q_first, k_first = tl.load(query_offsets + sentence), tl.load(key_offsets + sentence)
        q_count = tl.load(query_offsets + sentence + 1) - q_first
        k_count = tl.load(key_offsets + sentence + 1) - k_first
        q_end = tl.where(tl.maximum(q_count, k_count) > ABOVE, q_count, 0)
        for q_start in range(part, q_end, parts):
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
                    kept = _keep(drawn, head, q_first + rows, keys, heads, dropped)
                    weights = tl.where(kept, weights * enlarged, 0.0)
                added = tl.dot(weights.to(v_block.dtype), v_block, input_precision="ieee")
                weighted = weighted * shrink[:, None] + added
                greatest = highest
            total = tl.where(total == 0, 1.0, total)
            result = (weighted / total[:, None]).to(y.dtype.element_ty)
            tl.store(y + (q_first + rows)[:, None] * y_row + head * y_head + column[None, :], result, q_there)
            tl.store(sums + (q_first + rows) * heads + head, greatest + tl.log(total), rows < q_count)


@triton.jit
def _walked_backward(
    q, k, v, y, dy, sums, dq, dk, dv, query_offsets, key_offsets, seed, scale, dropped, enlarged, sentences,
    q_row, q_head, k_row, k_head, v_row, v_head, y_row, y_head, dy_row, dy_head,
    dq_row, dq_head, dk_row, dk_head, heads,
    CAUSAL: tl.constexpr, DROPS: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr,
    ABOVE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    head, part, parts = tl.program_id(0), tl.program_id(2) * BLOCK, tl.num_programs(2) * BLOCK
    place, column = tl.arange(0, BLOCK), tl.arange(0, ROOM)
    inside = column[None, :] < WIDTH
    drawn = tl.load(seed) if DROPS else 0
    for sentence in range(tl.program_id(1), sentences, tl.num_programs(1)):
        q_first, k_first = tl.load(query_offsets + sentence), tl.load(key_offsets + sentence)
        q_count = tl.load(query_offsets + sentence + 1) - q_first
        k_count = tl.load(key_offsets + sentence + 1) - k_first
        here = tl.maximum(q_count, k_count) > ABOVE
        for k_start in range(part, tl.where(here, k_count, 0), parts):  # dk and dv of a block of keys, over all queries
            keys = k_start + place
            k_there = (keys[:, None] < k_count) & inside
            k_block = tl.load(k + (k_first + keys)[:, None] * k_row + head * k_head + column[None, :], k_there, 0.0)
            v_block = tl.load(v + (k_first + keys)[:, None] * v_row + head * v_head + column[None, :], k_there, 0.0)
            dk_block = tl.zeros((BLOCK, ROOM), tl.float32)
            dv_block = tl.zeros((BLOCK, ROOM), tl.float32)
            begin = k_start if CAUSAL else 0
            for q_start in range(begin, q_count, BLOCK):
                rows = q_start + place
                q_block, dy_block, log_sum, row_sum = _queries(
                    q, y, dy, sums, rows, q_first, q_count, head, q_row, q_head, y_row, y_head, dy_row, dy_head, heads,
                    column, inside,
                )  # fmt: skip
                weights, dscores = _slopes(
                    q_block, dy_block, log_sum, row_sum, k_block, v_block, rows, keys, q_first, q_count, k_count, head,
                    drawn, scale, dropped, enlarged, heads, CAUSAL, DROPS,
                )  # fmt: skip
                dv_block += tl.dot(tl.trans(weights), dy_block, input_precision="ieee")
                dk_block += tl.dot(tl.trans(dscores), q_block, input_precision="ieee")
            dk_place = (k_first + keys)[:, None] * dk_row + head * dk_head + column[None, :]
            tl.store(dk + dk_place, dk_block.to(dk.dtype.element_ty), k_there)
            tl.store(dv + dk_place, dv_block.to(dv.dtype.element_ty), k_there)
        for q_start in range(part, tl.where(here, q_count, 0), parts):  # dq of a block of queries, over all keys
            rows = q_start + place
            q_block, dy_block, log_sum, row_sum = _queries(
                q, y, dy, sums, rows, q_first, q_count, head, q_row, q_head, y_row, y_head, dy_row, dy_head, heads,
                column, inside,
            )  # fmt: skip
            dq_block = tl.zeros((BLOCK, ROOM), tl.float32)
            last = tl.minimum(k_count, q_start + BLOCK) if CAUSAL else k_count
            for k_start in range(0, last, BLOCK):
                keys = k_start + place
                k_there = (keys[:, None] < k_count) & inside
                k_block = tl.load(k + (k_first + keys)[:, None] * k_row + head * k_head + column[None, :], k_there, 0.0)
                v_block = tl.load(v + (k_first + keys)[:, None] * v_row + head * v_head + column[None, :], k_there, 0.0)
                _, dscores = _slopes(
                    q_block, dy_block, log_sum, row_sum, k_block, v_block, rows, keys, q_first, q_count, k_count, head,
                    drawn, scale, dropped, enlarged, heads, CAUSAL, DROPS,
                )  # fmt: skip
                dq_block += tl.dot(dscores, k_block, input_precision="ieee")
            q_there = (rows[:, None] < q_count) & inside
            dq_place = dq + (q_first + rows)[:, None] * dq_row + head * dq_head + column[None, :]
            tl.store(dq_place, dq_block.to(dq.dtype.element_ty), q_there)


@triton.jit
def _queries(
    q, y, dy, sums, rows, q_first, q_count, head, q_row, q_head, y_row, y_head, dy_row, dy_head, heads, column, inside,
):  # fmt: skip
    """Load a block of queries, the gradients of their results, the logs of their sums, and dy . y."""
    there = (rows[:, None] < q_count) & inside
    q_block = tl.load(q + (q_first + rows)[:, None] * q_row + head * q_head + column[None, :], there, 0.0)
    y_block = tl.load(y + (q_first + rows)[:, None] * y_row + head * y_head + column[None, :], there, 0.0)
    dy_block = tl.load(dy + (q_first + rows)[:, None] * dy_row + head * dy_head + column[None, :], there, 0.0)
    log_sum = tl.load(sums + (q_first + rows) * heads + head, rows < q_count, 0.0)
    return q_block, dy_block, log_sum, tl.sum(dy_block.to(tl.float32) * y_block.to(tl.float32), 1)


@triton.jit
def _slopes(
    q_block, dy_block, log_sum, row_sum, k_block, v_block, rows, keys, q_first, q_count, k_count, head,
    drawn, scale, dropped, enlarged, heads, CAUSAL: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Return the weights of a block of queries and keys, and the gradients of their scores."""
    seen = (keys[None, :] < k_count) & (rows[:, None] < q_count)
    if CAUSAL:
        seen = seen & (keys[None, :] <= rows[:, None])
    scores = tl.dot(q_block, tl.trans(k_block), input_precision="ieee") * scale
    weights = tl.where(seen, tl.exp(scores - log_sum[:, None]), 0.0)
    dweights = tl.dot(dy_block, tl.trans(v_block), input_precision="ieee")
    used = weights
    if DROPS:
        kept = _keep(drawn, head, q_first + rows, keys, heads, dropped)
        used = tl.where(kept, weights * enlarged, 0.0)
        dweights = tl.where(kept, dweights * enlarged, 0.0)
    dscores = weights * (dweights - row_sum[:, None]) * scale
    return used.to(q_block.dtype), dscores.to(q_block.dtype)


# --- operators for autograd, compilers and CUDA graphs ----------------------------------------------------------------


def attend(
    q_NHD: Tensor,
    k_MHD: Tensor,
    v_MHD: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    seed: Tensor,
    causal: bool,
    dropout: float,
    bound: int,
) -> tuple[Tensor, Tensor]:
    """Return the result of attention, and the log of the sum of exponentials of each row.

    `seed` is one int64 on the device; no sentence is longer than `bound`.
    """
    y, sums = _shapes(q_NHD)
    heads, width = q_NHD.shape[1:]
    sentences = query_offsets.shape[0] - 1
    inputs = (
        q_NHD, k_MHD, v_MHD, y, sums, query_offsets, key_offsets, seed, width**-0.5, *_dropping(dropout), sentences,
        *strides(q_NHD, k_MHD, v_MHD, y), heads,
    )  # fmt: skip
    options = {"CAUSAL": causal, "DROPS": dropout > 0, **_widths(width)}
    tokens = max(q_NHD.shape[0], k_MHD.shape[0])
    above = 0
    for block, sizes in _WHOLE.items():
        if above < bound:
            grid = (triton.cdiv(heads, sizes["EACH"]), _programs(sentences, tokens, above))
            _whole_forward[grid](*inputs, ABOVE=above, BLOCK=block, **sizes, **options)
        above = block
    if above < bound:
        _walked_forward[(heads, _programs(sentences, tokens, above), _parts(bound))](
            *inputs, ABOVE=above, **_WALKED, **options
        )
    return y, sums


# Calling an operator imports the compiler, which takes seconds: without gradients `attend` is called as it is.
short_attention = torch.library.custom_op("heedful::short_attention", attend, mutates_args=())


@short_attention.register_fake
def _shapes(q_NHD: Tensor, *_: object) -> tuple[Tensor, Tensor]:
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
    bound: int,
) -> tuple[Tensor, Tensor]:
    """Return the gradients in the layout of the projections: dq, dk and dv in one tensor if q, k and v are views of
    one, otherwise dq in the first, and dk and dv in the second."""
    first, second = _gradient_shapes(dy, q_NHD, k_MHD)
    dq, dk, dv = _gradients(first, second)
    heads, width = q_NHD.shape[1:]
    sentences = query_offsets.shape[0] - 1
    places = (query_offsets, key_offsets, seed, width**-0.5, *_dropping(dropout), sentences)
    options = {"CAUSAL": causal, "DROPS": dropout > 0, **_widths(width)}
    tokens = max(q_NHD.shape[0], k_MHD.shape[0])
    above = 0
    for block, sizes in _WHOLE.items():
        if above < bound:
            _whole_backward[(triton.cdiv(heads, sizes["EACH"]), _programs(sentences, tokens, above))](
                q_NHD, k_MHD, v_MHD, dy, dq, dk, dv, *places, *strides(q_NHD, k_MHD, v_MHD, dy, dq, dk), heads,
                ABOVE=above, BLOCK=block, **sizes, **options,
            )  # fmt: skip
        above = block
    if above < bound:
        _walked_backward[(heads, _programs(sentences, tokens, above), _parts(bound))](
            q_NHD, k_MHD, v_MHD, y, dy, sums, dq, dk, dv, *places,
            *strides(q_NHD, k_MHD, v_MHD, y, dy, dq, dk), heads,
            ABOVE=above, **_WALKED, **options,
        )  # fmt: skip
    return first, second


@short_attention_backward.register_fake
def _gradient_shapes(dy: Tensor, q_NHD: Tensor, k_MHD: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    tokens, heads, width = q_NHD.shape
    if q_NHD.shape == k_MHD.shape and q_NHD.stride(0) == k_MHD.stride(0) == 3 * heads * width:
        return q_NHD.new_empty(tokens, 3, heads, width), q_NHD.new_empty(0)
    return q_NHD.new_empty(tokens, 1, heads, width), k_MHD.new_empty(k_MHD.shape[0], 2, heads, width)


def _gradients(first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
    """Return dq, dk and dv, as views."""
    return first.unbind(1) if second.numel() == 0 else (*first.unbind(1), *second.unbind(1))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, query_offsets, key_offsets, seed, ctx.causal, ctx.dropout, ctx.bound = inputs
    ctx.save_for_backward(q, k, v, *output, query_offsets, key_offsets, seed)
    ctx.set_materialize_grads(False)  # otherwise zeros would be written as the unused gradient of the sums


def _differentiate(ctx: Any, dy: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    q, k, v, y, sums, query_offsets, key_offsets, seed = ctx.saved_tensors
    first, second = short_attention_backward(
        dy.contiguous(), q, k, v, y, sums, query_offsets, key_offsets, seed, ctx.causal, ctx.dropout, ctx.bound
    )
    return *_gradients(first, second), None, None, None, None, None, None


short_attention.register_autograd(_differentiate, setup_context=_save)


def _widths(width: int) -> dict[str, int]:
    return {"WIDTH": width, "ROOM": next_power_of_two(width, 16)}


def _programs(sentences: int, tokens: int, above: int) -> int:
    """Return the largest possible number of sentences with more tokens than `above`, so that few programs are idle."""
    return max(1, min(sentences, triton.cdiv(tokens, max(above + 1, _FEWEST))))


def _parts(bound: int) -> int:
    """Return the number of programs that share the blocks of a long sentence, to finish at about the same time."""
    return triton.cdiv(bound, _PART)


def _dropping(dropout: float) -> tuple[int, float]:
    """Return how many of 2^31 possible draws drop a weight, and the factor of weights that are kept."""
    return min(round(dropout * 2**31), 2**31 - 1), 1 / (1 - dropout)
