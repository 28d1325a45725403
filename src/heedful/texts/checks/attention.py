"""Attention as matrices: the equations of the Transformer, and the worked examples of the tutorial and the slides."""

import math
from typing import cast

import torch
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.alignments.distributions import Hard, softmax
from heedful.nn.alignments.products import ScaledDot
from heedful.nn.attention.explicit import attend
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_TOKENS, _WIDTH, _HEADS = 3, 8, 2


def _read(q_QD: Tensor, k_KD: Tensor, v_KU: Tensor) -> tuple[Tensor, Tensor]:
    """Return what queries read, and their weights, by the alignment and the softmax of Heedful."""
    module = ScaledDot(q_QD.shape[1], k_KD.shape[1], 1)
    candidates = module.prepare(k_KD[None, None], v_KU[None, None])
    read, weights = attend(module, softmax, q_QD[None, None], candidates, causal=False)
    return read[0, 0], weights[0, 0]


def _softmax(row: list[float]) -> list[float]:
    exps = [math.exp(value - max(row)) for value in row]
    return [exp / sum(exps) for exp in exps]


def scaled_dot_product() -> Computed:
    """softmax(Q K^T / sqrt(d_k)) V"""
    with drawn():
        q, k, v = numbers(2, 4), numbers(3, 4), numbers(3, 5)
        weights = torch.tensor([_softmax([float(one @ key) / 2 for key in k]) for one in q], dtype=torch.float64)
        return Computed(weights @ v, _read(q, k, v)[0])


def _heads(module: nn.Module, x_q: Tensor, x_k: Tensor, causal: bool = False) -> Tensor:
    """Return Concat(head_1 ..) W_O by a loop over heads, with the matrices of a module."""
    if isinstance(module, SelfAttention):
        w_q, w_k, w_v = module.project.weight.detach().chunk(3)
        b_q, b_k, b_v = module.project.bias.detach().chunk(3)
    else:
        assert isinstance(module, CrossAttention)
        w_q, b_q = module.project_query.weight.detach(), module.project_query.bias.detach()
        (w_k, w_v), (b_k, b_v) = (
            part.detach().chunk(2) for part in (module.project_memory.weight, module.project_memory.bias)
        )
    width, heads = _WIDTH // _HEADS, []
    for head in range(_HEADS):
        rows = slice(head * width, (head + 1) * width)
        q, k, v = (x @ w[rows].T + b[rows] for x, w, b in ((x_q, w_q, b_q), (x_k, w_k, b_k), (x_k, w_v, b_v)))
        scores = q @ k.T / math.sqrt(width)
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
        heads.append(torch.tensor([_softmax(row) for row in scores.tolist()], dtype=torch.float64) @ v)
    output = cast(nn.Linear, module.output)
    return torch.cat(heads, dim=1) @ output.weight.detach().T + output.bias.detach()


def multi_head() -> Computed:
    """Concat(head_1 .. head_h) W_O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)"""
    with drawn():
        module, x = randomize(SelfAttention(_WIDTH, _HEADS)), numbers(_TOKENS, _WIDTH)
        return Computed(_heads(module, x, x), module(x, Layout.of([_TOKENS])))


def cross_attention() -> Computed:
    """Queries of the decoder, keys and values of the encoder"""
    with drawn():
        module, x, memory = randomize(CrossAttention(_WIDTH, _HEADS)), numbers(2, _WIDTH), numbers(_TOKENS, _WIDTH)
        ours = module(x, Layout.of([2]), memory, Layout.of([_TOKENS]))
        return Computed(_heads(module, x, memory), ours)


def causal_mask() -> Computed:
    """Scores of later positions are minus infinity"""
    with drawn():
        module, x = randomize(SelfAttention(_WIDTH, _HEADS, causal=True)), numbers(_TOKENS, _WIDTH)
        return Computed(_heads(module, x, x, causal=True), module(x, Layout.of([_TOKENS])))


def mask_tokens() -> Computed:
    """Later tokens replaced by a mask token, and all of them seen, in the text; minus infinity on scores"""
    with drawn():
        module, x = randomize(SelfAttention(_WIDTH, _HEADS, causal=True)), numbers(_TOKENS, _WIDTH)
        masked = torch.stack([_heads(module, row, row)[i] for i, row in enumerate(_with_masks(x))])
        return Computed(masked, module(x, Layout.of([_TOKENS])), _heads(module, x, x, causal=True))


def _with_masks(x: Tensor) -> list[Tensor]:
    """Return the input of each position: what comes after it is one and the same vector."""
    mask = numbers(x.shape[1])
    return [torch.cat([x[: i + 1], mask.expand(len(x) - i - 1, -1)]) for i in range(len(x))]


# --- worked examples --------------------------------------------------------------------------------------------------


def thinking_machines() -> Computed:
    """Scores 112 and 96, over 8 = sqrt(64): 14 and 12; softmax 0.88 and 0.12"""
    q = torch.zeros(1, 64, dtype=torch.float64)
    k = torch.zeros(2, 64, dtype=torch.float64)
    q[0, 0], k[0, 0], k[1, 0] = 8.0, 14.0, 12.0
    scores = (q @ k.T)[0]
    _, weights = _read(q, k, k)
    ours = [*scores.tolist(), *(scores / math.sqrt(64)).tolist(), *(round(w, 2) for w in weights[0].tolist())]
    return Computed([112, 96, 14, 12, 0.88, 0.12], ours)


def second_key() -> Computed:
    """A query that matches the second of four keys: the weights and the output that the tutorial prints"""
    q = torch.tensor([[0.0, 10, 0]])
    k = torch.tensor([[10.0, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]])
    v = torch.tensor([[1.0, 0, 0], [10, 0, 0], [100, 5, 0], [1000, 6, 0]])
    # The tutorial's module has 8 heads of 64, so that it divides by 8 and not by the root of 3.
    stretched = q * math.sqrt(3) / 8
    read, weights = _read(stretched, k, v)
    ours = [float(f"{value:.4e}") for value in [*weights[0].tolist(), *read[0].tolist()]]
    return Computed([3.7266e-06, 9.9999e-01, 3.7266e-06, 3.7266e-06, 1.0004e01, 4.0993e-05, 0.0], ours, tolerance=1e-9)


def hard_and_soft() -> Computed:
    """Hard attention takes one input, soft attention a mean whose weights sum to 1"""
    with drawn():
        scores = numbers(5)
        hard = Hard(softmax).eval()(scores)
        return Computed([1.0, 1.0, 1.0], [float(hard.max()), float(hard.count_nonzero()), float(softmax(scores).sum())])


def feed_forward_of_equal_rows() -> Computed:
    """Three equal inputs of a position-wise network give three equal outputs"""
    from heedful.nn.layers.feedforward import FeedForward

    with drawn():
        network = randomize(FeedForward(4, 8))
        y = network(torch.ones(3, 4, dtype=torch.float64))
        return Computed(y[0].expand(3, -1), y)


def feed_forward() -> Computed:
    """max(0, x W_1 + b_1) W_2 + b_2"""
    from heedful.nn.layers.feedforward import FeedForward

    with drawn():
        network, x = randomize(FeedForward(4, 8)), numbers(3, 4)
        assert isinstance(network, FeedForward)
        inner = (x @ network.into.weight.T + network.into.bias).clamp(min=0)
        return Computed(inner @ network.out.weight.T + network.out.bias, network(x))
