"""The kernels of `nn.crf`: sums over all paths of a sentence, and their gradients, one program per sentence.

Step by step in PyTorch, a sentence of n words takes some 20 n small launches, and a batch as many as its bound. Here a
program holds the scores of transitions in registers and walks through its own sentence, however long the others are.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from heedful.nn.kernels.sizes import next_power_of_two

MOST_LABELS: Final = 128  # whose pairs fit into the registers of a program


@triton.jit
def _forward(
    x, start, steps, end, offsets, lengths, alphas, totals, count,
    step_b, step_i, step_j, edge_b, edge_j, close_b, close_j, ROOM: tl.constexpr,
):  # fmt: skip
    """alpha_t[j] = x_t[j] + log sum_i exp(alpha_(t-1)[i] + T[i, j]), kept for all words of one sentence."""
    sentence = tl.program_id(0).to(tl.int64)
    first, length = tl.load(offsets + sentence).to(tl.int64), tl.load(lengths + sentence).to(tl.int32)
    before, label = tl.arange(0, ROOM)[:, None], tl.arange(0, ROOM)
    there = label < count
    pairs = steps + sentence * step_b + before * step_i + label[None, :] * step_j
    transitions = tl.load(pairs, (before < count) & there[None, :], 0.0)
    if length > 0:
        opened = tl.load(start + sentence * edge_b + label * edge_j, there, 0.0)
        alpha = opened + tl.load(x + first * count + label, there, -float("inf"))
        tl.store(alphas + first * count + label, alpha, there)
        for word in range(1, length):
            reached = alpha[:, None] + transitions
            top = tl.max(reached, 0)
            sums = top + tl.log(tl.sum(tl.exp(reached - top[None, :]), 0))
            row = (first + word) * count
            alpha = sums + tl.load(x + row + label, there, -float("inf"))
            tl.store(alphas + row + label, alpha, there)
        closed = alpha + tl.load(end + sentence * close_b + label * close_j, there, 0.0)
        highest = tl.max(closed, 0)
        tl.store(totals + sentence, highest + tl.log(tl.sum(tl.exp(closed - highest), 0)))
    else:
        tl.store(totals + sentence, 0.0)


@triton.jit
def _backward(
    x, steps, end, offsets, lengths, alphas, totals, dy, dx, d_start, d_steps, d_end, count,
    step_b, step_i, step_j, close_b, close_j, ROOM: tl.constexpr,
):  # fmt: skip
    """P(i, j at t-1, t) = P(j at t) exp(alpha_(t-1)[i] + T[i, j] + x_t[j] - alpha_t[j]), times dy."""
    sentence = tl.program_id(0).to(tl.int64)
    first, length = tl.load(offsets + sentence).to(tl.int64), tl.load(lengths + sentence).to(tl.int32)
    before, label = tl.arange(0, ROOM)[:, None], tl.arange(0, ROOM)
    there = label < count
    pairs = before * step_i + label[None, :] * step_j
    both = (before < count) & there[None, :]
    transitions = tl.load(steps + sentence * step_b + pairs, both, 0.0)
    gradient = tl.zeros((ROOM, ROOM), tl.float32)
    p = tl.zeros((ROOM,), tl.float32)
    if length > 0:
        last = (first + length - 1) * count
        closed = tl.load(alphas + last + label, there, -float("inf"))
        closed += tl.load(end + sentence * close_b + label * close_j, there, 0.0)
        p = tl.exp(closed - tl.load(totals + sentence)) * tl.load(dy + sentence)
    tl.store(d_end + sentence * count + label, p, there)
    for back in range(1, length):
        row = (first + length - back) * count
        tl.store(dx + row + label, p, there)
        # Infinite where there is no label: exp of anything less is 0 there, and never infinite.
        reached = tl.load(alphas + row + label, there, float("inf")) - tl.load(x + row + label, there, 0.0)
        alpha = tl.load(alphas + row - count + label, there, -float("inf"))
        pair = tl.exp(alpha[:, None] + transitions - reached[None, :]) * p[None, :]
        gradient += pair
        p = tl.sum(pair, 1)
    if length > 0:
        tl.store(dx + first * count + label, p, there)
    tl.store(d_start + sentence * count + label, p, there)
    tl.store(d_steps + sentence * count * count + before * count + label[None, :], gradient, both)


def supports(x_NC: Tensor) -> bool:
    """Return whether the kernels can sum over paths of these scores."""
    return x_NC.dtype == torch.float32 and x_NC.shape[1] <= MOST_LABELS


def sum_forward(
    x_NC: Tensor, start_BC: Tensor, steps_BCC: Tensor, end_BC: Tensor, offsets: Tensor, lengths_B: Tensor
) -> tuple[Tensor, Tensor]:
    """Return alpha of every word, and the log of the sum over all paths of each sentence; 0 without words."""
    rows, count = start_BC.shape
    alphas_NC, totals_B = torch.empty_like(x_NC), x_NC.new_empty(rows)
    _forward[(rows,)](
        x_NC, start_BC, steps_BCC, end_BC, offsets, lengths_B, alphas_NC, totals_B, count,
        *steps_BCC.stride(), *start_BC.stride(), *end_BC.stride(), **_size(count),
    )  # fmt: skip
    return alphas_NC, totals_B


def sum_backward(
    x_NC: Tensor, steps_BCC: Tensor, end_BC: Tensor, offsets: Tensor, lengths_B: Tensor,
    alphas_NC: Tensor, totals_B: Tensor, dy_B: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of the scores of words, of starts, of transitions and of ends."""
    rows, count = end_BC.shape
    dx_NC = torch.zeros_like(x_NC)  # words after the end of a shortened sentence have none
    d_start, d_end = x_NC.new_empty(rows, count), x_NC.new_empty(rows, count)
    d_steps = x_NC.new_empty(rows, count, count)
    _backward[(rows,)](
        x_NC, steps_BCC, end_BC, offsets, lengths_B, alphas_NC, totals_B, dy_B, dx_NC, d_start, d_steps, d_end, count,
        *steps_BCC.stride(), *end_BC.stride(), **_size(count),
    )  # fmt: skip
    return dx_NC, d_start, d_steps, d_end


def _size(count: int) -> dict[str, int]:
    room = next_power_of_two(count, 16)
    return {"ROOM": room, "num_warps": 8 if room > 64 else 4}
