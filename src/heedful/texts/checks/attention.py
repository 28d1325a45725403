"""Attention as matrices: the equations of the Transformer, and the worked examples of the tutorial and the slides."""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.nn.alignments.distributions import Sigmoid, softmax
from heedful.nn.alignments.networks import Additive
from heedful.nn.alignments.products import ScaledDot
from heedful.nn.alignments.table import make_alignment
from heedful.nn.attention.explicit import attend
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.recurrent.attention import RecurrentAttention
from heedful.texts.checks.by_hand import written_softmax
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_TOKENS, _WIDTH, _HEADS = 3, 8, 2


def _read(q_QD: Tensor, k_KD: Tensor, v_KU: Tensor) -> tuple[Tensor, Tensor]:
    """Return what queries read, and their weights, by the alignment and the softmax of Heedful."""
    module = ScaledDot(q_QD.shape[1], k_KD.shape[1], 1)
    candidates = module.prepare(k_KD[None, None], v_KU[None, None])
    read, weights = attend(module, softmax, q_QD[None, None], candidates, causal=False)
    return read[0, 0], weights[0, 0]


def scaled_dot_product() -> Computed:
    """softmax(Q K^T / sqrt(d_k)) V"""
    with drawn():
        q, k, v = numbers(2, 4), numbers(3, 4), numbers(3, 5)
        weights = torch.tensor([written_softmax([float(one @ key) / 2 for key in k]) for one in q], dtype=torch.float64)
        return Computed(weights @ v, _read(q, k, v)[0])


def _heads(module: nn.Module, x_q: Tensor, x_k: Tensor, causal: bool = False) -> Tensor:
    """Return Concat(head_1 ..) W_O by a loop over heads, with the matrices of a module, which has no biases."""
    if isinstance(module, SelfAttention):
        w_q, w_k, w_v = module.project.weight.detach().chunk(3)
    else:
        assert isinstance(module, CrossAttention)
        w_q, (w_k, w_v) = module.project_query.weight.detach(), module.project_memory.weight.detach().chunk(2)
    width, heads = _WIDTH // _HEADS, []
    for head in range(_HEADS):
        rows = slice(head * width, (head + 1) * width)
        q, k, v = x_q @ w_q[rows].T, x_k @ w_k[rows].T, x_k @ w_v[rows].T
        scores = q @ k.T / math.sqrt(width)
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
        heads.append(torch.tensor([written_softmax(row) for row in scores.tolist()], dtype=torch.float64) @ v)
    return torch.cat(heads, dim=1) @ cast(nn.Linear, module.output).weight.detach().T


def _self_attention(causal: bool = False) -> nn.Module:
    return randomize(SelfAttention(_WIDTH, _HEADS, causal=causal, bias=False))


def multi_head() -> Computed:
    """Concat(head_1 .. head_h) W_O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V), without biases (`model.bias`)"""
    with drawn():
        module, x = _self_attention(), numbers(_TOKENS, _WIDTH)
        return Computed(_heads(module, x, x), module(x, Layout.of([_TOKENS])))


def cross_attention() -> Computed:
    """Queries of the decoder, keys and values of the encoder"""
    with drawn():
        module = randomize(CrossAttention(_WIDTH, _HEADS, bias=False))
        x, memory = numbers(2, _WIDTH), numbers(_TOKENS, _WIDTH)
        ours = module(x, Layout.of([2]), memory, Layout.of([_TOKENS]))
        return Computed(_heads(module, x, memory), ours)


def causal_mask() -> Computed:
    """Scores of later positions are minus infinity"""
    with drawn():
        module, x = _self_attention(causal=True), numbers(_TOKENS, _WIDTH)
        return Computed(_heads(module, x, x, causal=True), module(x, Layout.of([_TOKENS])))


def mask_tokens() -> Computed:
    """Later tokens replaced by a mask token, and all of them seen, in the text; minus infinity on scores"""
    with drawn():
        module, x = _self_attention(causal=True), numbers(_TOKENS, _WIDTH)
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


# --- the rows of table 2.1 of the thesis, and distributions, as loops over queries and keys ---------------------------


_SIZE, _QUERIES, _KEYS = 4, 2, 3
Score = Callable[[Tensor, Tensor, int], Tensor]  # of a query, a key and the key's position


def _scored(
    name: str, make: Callable[[Any], Score], right: Callable[[Any], Score] | None = None, **options: Any
) -> Computed:
    """Compare an alignment of Heedful with formulas that are given its parameters."""
    with drawn():
        module = make_alignment(name, _SIZE, _SIZE, 1, **options)
        randomize(module)
        q, k = numbers(_QUERIES, _SIZE), numbers(_KEYS, _SIZE)
        ours = module(q[None, None], module.prepare(k[None, None], k[None, None]))[0, 0]
        corrected = None if right is None else _loop(right(module), q, k)
        return Computed(_loop(make(module), q, k), ours, corrected)


def _loop(score: Score, q_QD: Tensor, k_KD: Tensor) -> Tensor:
    return torch.stack([torch.stack([score(q, k, place) for place, k in enumerate(k_KD)]) for q in q_QD]).detach()


def content() -> Computed:
    """sim(k, q), the cosine, in the text; Heedful's is multiplied by a strength beta(q), as in Graves et al. 2014"""
    return _scored("content", lambda module: lambda q, k, _: q @ k / (q.norm() * k.norm()))


def dot() -> Computed:
    """q . k"""
    return _scored("dot", lambda module: lambda q, k, _: q @ k)


def scaled_dot() -> Computed:
    """q . k / sqrt(d_k)"""
    return _scored("scaled_dot", lambda module: lambda q, k, _: q @ k / math.sqrt(_SIZE))


def general() -> Computed:
    """q . W k"""
    return _scored("general", lambda module: lambda q, k, _: q @ module.weight[0] @ k)


def biased_general() -> Computed:
    """k . (W q + b)"""
    return _scored("biased_general", lambda m: lambda q, k, _: k @ (m.weight[0] @ q + m.bias[0, 0]))


def activated_general() -> Computed:
    """act(q . W k + b), with tanh"""
    return _scored("activated_general", lambda m: lambda q, k, _: torch.tanh(q @ m.weight[0] @ k + m.bias[0, 0, 0]))


def additive() -> Computed:
    """v . tanh(W [q; k]); the two blocks of W are two matrices, and there is no bias"""
    return _scored(
        "additive",
        lambda m: (
            lambda q, k, _: (
                m.vector[0, 0] @ torch.tanh(torch.cat([m.query_weight[0], m.key_weight[0]], dim=1) @ torch.cat([q, k]))
            )
        ),
    )


def deep() -> Computed:
    """v . E(L-1) + b, with E(l) = act(W_l E(l-1) + b_l) and E(1) = act(W_0 k + W_1 q + b_1)"""

    def make(m: Any) -> Score:
        def score(q: Tensor, k: Tensor, _: int) -> Tensor:
            inner = torch.relu(m.key_weight[0] @ k + m.query_weight[0] @ q + m.key_bias[0, 0])
            for weight, bias in zip(m.weights, m.biases, strict=True):
                inner = torch.relu(weight[0] @ inner + bias[0, 0])
            return m.vector[0, 0] @ inner + m.bias[0, 0, 0]

        return score

    return _scored("deep", make)


def location() -> Computed:
    """act(W q) in the text, here with tanh; W q, before the softmax, in Luong et al. 2015"""
    return _scored(
        "location",
        lambda m: lambda q, k, place: torch.tanh(m.weight[0, place] @ q),
        lambda m: lambda q, k, place: m.weight[0, place] @ q,
        max_length=_KEYS,
    )


# --- from scores to what is read --------------------------------------------------------------------------------------


def context() -> Computed:
    """c = sum_i alpha_i h(i), alpha = softmax(v . tanh(W [s; h(i)]))"""
    with drawn():
        alignment = Additive(_SIZE, _SIZE, 1)
        attention = RecurrentAttention(alignment, softmax)
        randomize(attention)
        s, h = numbers(_SIZE), numbers(_KEYS, _SIZE)
        memory = attention.prepare(Packed(h, Layout.of([_KEYS])))
        ours, weights = attention(s[None, None], memory, torch.zeros(1, dtype=torch.int64))
        joined = torch.cat([alignment.query_weight[0], alignment.key_weight[0]], dim=1)
        scores = [alignment.vector[0, 0] @ torch.tanh(joined @ torch.cat([s, one])) for one in h]
        exps = [math.exp(score.detach()) for score in scores]
        alphas = [exp / sum(exps) for exp in exps]
        read = sum(alpha * one for alpha, one in zip(alphas, h, strict=True))
        assert isinstance(read, Tensor)
        return Computed(
            torch.cat([torch.tensor(alphas).double(), read]), torch.cat([weights.flatten(), ours.flatten()])
        )


def softmax_sums_to_one() -> Computed:
    """The sum of the three weights of a softmax, 1, and how many of them are between 0 and 1: all three"""
    weights = softmax(torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64))
    return Computed([1.0, 3.0], [float(weights.sum()), float(((weights >= 0) & (weights <= 1)).sum())])


def sigmoid_sums_to_one() -> Computed:
    """The weights of a logistic sigmoid sum to 1 in the text; they do only when they are divided by their sum"""
    scores = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    plain = Sigmoid()(scores)
    return Computed([1.0], [float(plain.sum())], [sum(1 / (1 + math.exp(-s)) for s in scores.tolist())])
