"""The rows of table 2.1 of the thesis, and distributions, as loops over queries and keys."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from heedful.base.packed import Layout, Packed
from heedful.nn.alignments.base import Alignment
from heedful.nn.alignments.distributions import Sigmoid, entmax15, normalised_sigmoid, softmax, sparsemax
from heedful.nn.alignments.networks import Additive
from heedful.nn.alignments.table import make_alignment
from heedful.nn.recurrent.attention import RecurrentAttention
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_WIDTH, _QUERIES, _KEYS = 4, 2, 3
Score = Callable[[Tensor, Tensor, int], Tensor]  # of a query, a key and the key's position


def _scored(
    name: str, make: Callable[[Any], Score], right: Callable[[Any], Score] | None = None, **options: Any
) -> Computed:
    """Compare an alignment of Heedful with formulas that are given its parameters."""
    with drawn():
        module = make_alignment(name, _WIDTH, _WIDTH, 1, **options)
        randomize(module)
        q, k = numbers(_QUERIES, _WIDTH), numbers(_KEYS, _WIDTH)
        ours = module(q[None, None], module.prepare(k[None, None], k[None, None]))[0, 0]
        corrected = None if right is None else _loop(right(module), q, k)
        return Computed(_loop(make(module), q, k), ours, corrected)


def _loop(score: Score, q_QD: Tensor, k_KD: Tensor) -> Tensor:
    return torch.stack([torch.stack([score(q, k, place) for place, k in enumerate(k_KD)]) for q in q_QD]).detach()


def content() -> Computed:
    """sim(k, q), the cosine, in the text; times a strength beta(q) in Graves et al. 2014"""

    def cosine(q: Tensor, k: Tensor, _: int) -> Tensor:
        return q @ k / (q.norm() * k.norm())

    def strong(module: Any) -> Score:
        def score(q: Tensor, k: Tensor, place: int) -> Tensor:
            return torch.log1p(torch.exp(module.strength[0, 0] @ q + module.bias[0, 0, 0])) * cosine(q, k, place)

        return score

    return _scored("content", lambda module: cosine, strong)


def dot() -> Computed:
    """q . k"""
    return _scored("dot", lambda module: lambda q, k, _: q @ k)


def scaled_dot() -> Computed:
    """q . k / sqrt(d_k)"""
    return _scored("scaled_dot", lambda module: lambda q, k, _: q @ k / math.sqrt(_WIDTH))


def general() -> Computed:
    """q . W k"""
    return _scored("general", lambda module: lambda q, k, _: q @ module.weight[0] @ k)


def biased_general() -> Computed:
    """k . (W q + b)"""
    return _scored("biased_general", lambda m: lambda q, k, _: k @ (m.weight[0] @ q + m.bias[0, 0]))


def activated_general() -> Computed:
    """act(q . W k + b), with tanh"""
    return _scored("activated_general", lambda m: lambda q, k, _: torch.tanh(q @ m.weight[0] @ k + m.bias[0, 0, 0]))


def kernel() -> Computed:
    """phi(q) . phi(k); Heedful's score is its logarithm, which a softmax turns into the kernel's own weights"""

    def features(module: Any, x: Tensor) -> Tensor:
        scaled = x / _WIDTH**0.25
        exponents = module.directions[0] @ scaled - scaled @ scaled / 2
        return torch.exp(exponents) / math.sqrt(len(exponents))

    return _scored("kernel", lambda m: lambda q, k, _: torch.log(features(m, q) @ features(m, k)), features=16)


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


def area() -> Computed:
    """v . act(W_0 phi(K) + W_1 phi(K) + b) in the text; q . key(area) / sqrt(d) in Li et al. 2019, with mean keys"""
    with drawn():
        module: Alignment = make_alignment("area", _WIDTH, _WIDTH, 1, largest=2, features="mean")
        q, k = numbers(1, _WIDTH), numbers(_KEYS, _WIDTH)
        ours = module(q[None, None], module.prepare(k[None, None], k[None, None]))[0, 0]
        areas = [k[i] for i in range(_KEYS)] + [(k[i] + k[i + 1]) / 2 for i in range(_KEYS - 1)]
        right = torch.stack([q[0] @ key / math.sqrt(_WIDTH) for key in areas])
        v, w_0, w_1 = numbers(_WIDTH), numbers(_WIDTH, _WIDTH), numbers(_WIDTH, _WIDTH)
        text = torch.stack([v @ torch.tanh(w_0 @ key + w_1 @ key) for key in areas])  # without the query
        return Computed(text, ours[0], right)


# --- from scores to what is read --------------------------------------------------------------------------------------


def context() -> Computed:
    """c = sum_i alpha_i h(i), alpha = softmax(v . tanh(W [s; h(i)]))"""
    with drawn():
        alignment = Additive(_WIDTH, _WIDTH, 1)
        attention = RecurrentAttention(alignment, softmax)
        randomize(attention)
        s, h = numbers(_WIDTH), numbers(_KEYS, _WIDTH)
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
    """The weights of a softmax are between 0 and 1, and sum to 1"""
    weights = softmax(torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64))
    return Computed([1.0], [float(weights.sum())])


def sigmoid_sums_to_one() -> Computed:
    """The weights of a logistic sigmoid sum to 1 in the text; they do only when they are divided by their sum"""
    scores = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    plain = Sigmoid()(scores)
    return Computed([1.0], [float(plain.sum())], [sum(1 / (1 + math.exp(-s)) for s in scores.tolist())])


def sparse_distributions() -> Computed:
    """Sparsemax and entmax give some scores a weight of exactly 0, and all weights sum to 1"""
    scores = torch.tensor([3.0, 1.0, -2.0], dtype=torch.float64)
    rows = [rule(scores) for rule in (sparsemax, entmax15, normalised_sigmoid)]
    sums, zeros = [float(row.sum()) for row in rows], [float((row == 0).any()) for row in rows]
    return Computed([1.0, 1.0, 1.0, 1.0, 1.0, 0.0], [*sums, *zeros])
