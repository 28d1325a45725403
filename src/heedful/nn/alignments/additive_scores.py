"""score(q, k) = v . tanh(q + k) of every query and key, without holding the inner values of all pairs in memory.

They would take A times the memory of the scores. The backward pass computes them again, a few pairs at a time, in a
buffer that fits in a CPU's cache:

    dv = sum s' t,  dq = v * sum_k s' (1 - t^2),  dk = v * sum_q s' (1 - t^2),      t = tanh(q + k), s' = dL / dscore

Shape letters of this file: Q  queries    C  keys    A  width of both
"""

from collections.abc import Iterator
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor

_CHUNK: Final = 2**19  # inner values at a time on a CPU: two megabytes of float32
_GPU_CHUNK: Final = 2**25


def additive_scores(
    q_BQA: Float[Tensor, "B Q A"], k_BCA: Float[Tensor, "B C A"], v_A: Float[Tensor, "A"]
) -> Float[Tensor, "B Q C"]:
    """v . tanh(q + k)"""
    scores: Tensor = _AdditiveScores.apply(q_BQA, k_BCA, v_A)  # type: ignore[no-untyped-call]
    return scores


def additive_step(
    q_BQA: Float[Tensor, "B Q A"], k_BCA: Float[Tensor, "B C A"], v_A: Float[Tensor, "A"]
) -> Float[Tensor, "B Q C"]:
    """v . tanh(q + k), with a gradient for q only: `shared_gradients` computes the others"""
    scores: Tensor = _AdditiveStep.apply(q_BQA, k_BCA, v_A)  # type: ignore[no-untyped-call]
    return scores


def shared_gradients(
    g_BQC: Float[Tensor, "B Q C"],
    q_BQA: Float[Tensor, "B Q A"],
    k_BCA: Float[Tensor, "B C A"],
    v_A: Float[Tensor, "A"],
) -> tuple[Float[Tensor, "B C A"], Float[Tensor, "A"]]:
    """Return the gradients of k and v, from those of the scores."""
    k_gradient, v_gradient = torch.zeros_like(k_BCA), torch.zeros_like(v_A)
    for batch, queries, t_bqCA in _inner(q_BQA, k_BCA):
        g_bqC = g_BQC[batch, queries]
        v_gradient += g_bqC.reshape(-1) @ t_bqCA.flatten(0, 2)
        k_gradient[batch] += _slope(t_bqCA).mul_(g_bqC.unsqueeze(3)).sum(1)
    return k_gradient.mul_(v_A), v_gradient


class _AdditiveScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q_BQA: Tensor, k_BCA: Tensor, v_A: Tensor) -> Tensor:
        ctx.save_for_backward(q_BQA, k_BCA, v_A)
        return _scores(q_BQA, k_BCA, v_A)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q_BQA, k_BCA, v_A = ctx.saved_tensors
        g_BQC = gradients[0].contiguous()
        return _query_gradient(g_BQC, q_BQA, k_BCA, v_A), *shared_gradients(g_BQC, q_BQA, k_BCA, v_A)


class _AdditiveStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q_BQA: Tensor, k_BCA: Tensor, v_A: Tensor) -> Tensor:
        ctx.save_for_backward(q_BQA, k_BCA, v_A)
        return _scores(q_BQA, k_BCA, v_A)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _query_gradient(gradients[0].contiguous(), *ctx.saved_tensors), None, None


def _scores(q_BQA: Tensor, k_BCA: Tensor, v_A: Tensor) -> Tensor:
    scores_BQC = q_BQA.new_empty(*q_BQA.shape[:2], k_BCA.shape[1])
    for batch, queries, t_bqCA in _inner(q_BQA, k_BCA):
        torch.mv(t_bqCA.flatten(0, 2), v_A, out=scores_BQC[batch, queries].view(-1))
    return scores_BQC


def _query_gradient(g_BQC: Tensor, q_BQA: Tensor, k_BCA: Tensor, v_A: Tensor) -> Tensor:
    gradient_BQA = torch.empty_like(q_BQA)
    for batch, queries, t_bqCA in _inner(q_BQA, k_BCA):
        slope_nCA, g_n1C = _slope(t_bqCA).flatten(0, 1), g_BQC[batch, queries].flatten(0, 1).unsqueeze(1)
        gradient_BQA[batch, queries] = torch.bmm(g_n1C, slope_nCA).view(t_bqCA.shape[0], t_bqCA.shape[1], -1)
    return gradient_BQA.mul_(v_A)


def _inner(q_BQA: Tensor, k_BCA: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield tanh(q + k) of some sentences and queries at a time; the next one overwrites the last one."""
    sentences, count, width = q_BQA.shape
    keys = k_BCA.shape[1]
    chunk = _CHUNK if q_BQA.device.type == "cpu" else _GPU_CHUNK
    some_sentences = max(1, chunk // max(1, count * keys * width))
    some_queries = max(1, min(count, chunk // max(1, keys * width)))  # fewer than all only if one sentence is too large
    room = q_BQA.new_empty(min(sentences, some_sentences) * some_queries * keys * width)
    for first in range(0, sentences, some_sentences):
        batch = slice(first, min(first + some_sentences, sentences))
        for start in range(0, count, some_queries):
            queries = slice(start, min(start + some_queries, count))
            shape = (batch.stop - first, queries.stop - start, keys, width)
            inner = room[: shape[0] * shape[1] * keys * width].view(shape)
            torch.add(q_BQA[batch, queries].unsqueeze(2), k_BCA[batch].unsqueeze(1), out=inner)
            yield batch, queries, inner.tanh_()


def _slope(t: Tensor) -> Tensor:
    """Replace t by 1 - t^2."""
    return torch.addcmul(t.new_ones(()), t, t, value=-1, out=t)
