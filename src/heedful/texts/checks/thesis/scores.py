"""Attention in general, distributions, and rows of table 2.1 where the text's and Heedful's differ: section 2.1.3."""

import math
from itertools import combinations

import torch
from torch import Tensor

from heedful.nn.alignments.distributions import DeAttention, entmax15, l1_distance, softmax, sparsemax
from heedful.nn.alignments.products import General
from heedful.nn.alignments.random_features import Kernel
from heedful.nn.alignments.table import make_alignment
from heedful.nn.attention.explicit import attend
from heedful.texts.checks.computed import Computed, drawn, given, numbers, randomize

_SIZE, _KEYS = 4, 3


def attention_in_general() -> Computed:
    """A(q, K, V) = sum_i p(a(k_i, q)) v_i, with a = q W k_i and p a softmax"""
    with drawn():
        alignment, q, k, v = General(_SIZE, _SIZE, 1), numbers(_SIZE), numbers(_KEYS, _SIZE), numbers(_KEYS, 2)
        randomize(alignment)
        weight = alignment.weight.detach()[0]
        exps = [math.exp(float(q @ weight @ one)) for one in k]
        text = sum((exp / sum(exps) * one for exp, one in zip(exps, v, strict=True)), torch.zeros(2).double())
        ours, _ = attend(alignment, softmax, q[None, None, None], alignment.prepare(k[None, None], v[None, None]))
        return Computed(text, ours)


def sparse_weights() -> Computed:
    """Sparsemax, argmin ||p - x||^2 over probabilities, and entmax of 1.5, by trying out which keys have weights"""
    scores = torch.tensor([1.2, 1.0, -2.0], dtype=torch.float64)
    return Computed(
        [*_by_supports(scores.tolist(), 2.0), *_by_supports(scores.tolist(), 1.5)],
        torch.cat([sparsemax(scores), entmax15(scores)]),
    )


def _by_supports(scores: list[float], alpha: float) -> list[float]:
    """Return max(0, (alpha - 1) x - t)^(1 / (alpha - 1)), for the only set of keys whose t leaves the others out."""
    power = 1 / (alpha - 1)
    for count in range(1, len(scores) + 1):
        for support in combinations(range(len(scores)), count):
            low, high = -10.0, 10.0  # of the threshold
            for _ in range(200):
                middle = (low + high) / 2
                total = sum(max(0.0, (alpha - 1) * scores[i] - middle) ** power for i in support)
                low, high = (middle, high) if total > 1 else (low, middle)
            weights = [max(0.0, (alpha - 1) * score - low) ** power for score in scores]
            if {i for i, weight in enumerate(weights) if weight > 0} == set(support) and abs(sum(weights) - 1) < 1e-9:
                return weights
    raise AssertionError("a distribution has weights")


def de_attention() -> Computed:
    """M = tanh(E) * sigmoid(N): E the similarity q . k, N the negative distance -|q - k|; `gate = "plain"`"""
    with drawn():
        q, k = numbers(2, _SIZE), numbers(_KEYS, _SIZE)
        text = []
        for one in q:
            for key in k:
                similarity, negative = float(one @ key), -float((one - key).abs().sum())
                text.append(math.tanh(similarity) / (1 + math.exp(-negative)))
        return Computed(text, DeAttention(gate="plain")(q @ k.T, l1_distance(q, k)))


def _score(name: str, q: Tensor, k: Tensor) -> Tensor:
    module = make_alignment(name, q.shape[1], k.shape[1], 1)
    randomize(module)
    return module(q[None, None], module.prepare(k[None, None], k[None, None]))[0, 0].detach()


def spaces_of_queries_and_keys() -> Computed:
    """Whether an additive score, a dot product and a cosine take queries of 3 numbers and keys of 5: yes, no, no"""
    with drawn():
        q, k, taken = numbers(2, 3), numbers(_KEYS, 5), []
        for name in ("additive", "dot", "content"):
            try:
                taken.append(float(_score(name, q, k).shape == (2, _KEYS)))
            except ValueError:
                taken.append(0.0)
        return Computed([1.0, 0.0, 0.0], taken)


def kernel_of_features() -> Computed:
    """phi(q) . phi(k), phi(x) = exp(w . x' - |x'|^2 / 2) / sqrt(M), x' = x / d^(1/4); Heedful keeps the logarithm"""
    with drawn():
        module = Kernel(_SIZE, _SIZE, 1, features=8).double()
        directions = given(module.directions[0])
        q, k = numbers(2, _SIZE), numbers(_KEYS, _SIZE)

        def features(x: Tensor) -> Tensor:
            scaled = x / _SIZE**0.25
            return torch.exp(directions @ scaled - scaled @ scaled / 2) / math.sqrt(len(directions))

        text = torch.stack([torch.stack([features(one) @ features(key) for key in k]) for one in q])
        return Computed(text, module(q[None, None], module.prepare(k[None, None], k[None, None]))[0, 0].exp())


def additive_with_a_bias() -> Computed:
    """v . tanh(W [q; k] + b) in the text; v . tanh(W [q; k]) in Bahdanau et al. 2015, Luong et al. 2015 and 2.21"""
    with drawn():
        module = make_alignment("additive", _SIZE, _SIZE, 1)
        randomize(module)
        q, k, b = numbers(1, _SIZE), numbers(_KEYS, _SIZE), numbers(_SIZE)
        joined = torch.cat([module.query_weight[0], module.key_weight[0]], dim=1).detach()  # type: ignore[index]
        vector = module.vector.detach()[0, 0]  # type: ignore[operator]

        def score(key: Tensor, bias: Tensor | float) -> Tensor:
            return vector @ torch.tanh(joined @ torch.cat([q[0], key]) + bias)

        ours = module(q[None, None], module.prepare(k[None, None], k[None, None]))[0, 0, 0]
        text, right = (torch.stack([score(key, bias) for key in k]) for bias in (b, 0.0))
        return Computed(text, ours, right)


def learned_scores() -> Computed:
    """Parameters that a score trains: W; W, b; W, b; v and W in two parts; v, W_0, W_1, W_2, W_3 and four b; W"""
    counts = {"general": 1, "biased_general": 2, "activated_general": 2, "additive": 3, "deep": 9, "location": 1}
    with drawn():
        q, k, ours = numbers(2, _SIZE), numbers(_KEYS, _SIZE), []
        for name in counts:
            module = make_alignment(name, _SIZE, _SIZE, 1, **({"max_length": _KEYS} if name == "location" else {}))
            randomize(module)
            module(q[None, None], module.prepare(k[None, None], k[None, None])).square().sum().backward()
            ours.append(float(sum(one.grad is not None and bool(one.grad.any()) for one in module.parameters())))
        return Computed([float(count) for count in counts.values()], ours)


def scaled_products() -> Computed:
    """Deviations of q . k for q and k of d = 4, 64 and 256 standard normal numbers: sqrt(d), and 1 over sqrt(d_k)"""
    with drawn():
        text, ours = [], []
        for size in (4, 64, 256):
            q, k = (torch.randn(1, 1, 400, size, dtype=torch.float64) for _ in range(2))
            for name, expected in (("dot", math.sqrt(size)), ("scaled_dot", 1.0)):
                module = make_alignment(name, size, size, 1).double()
                ours.append(float(module(q, module.prepare(k, k)).std()) / expected)
                text.append(1.0)
        return Computed(text, ours, tolerance=0.05)


def gradients_of_a_softmax() -> Computed:
    """Share of the gradient that a softmax over 10 products of 512 numbers lets through: hardly any, but scaled most"""
    with drawn():
        shares = []
        for name in ("dot", "scaled_dot"):
            module = make_alignment(name, 512, 512, 1).double()
            q, k = torch.randn(1, 1, 200, 512, dtype=torch.float64), torch.randn(1, 1, 10, 512, dtype=torch.float64)
            weights = softmax(module(q, module.prepare(k, k)))[0, 0]
            # The diagonal of a softmax's Jacobian is p (1 - p): at most 9/100 of each key where all are alike.
            shares.append(float((weights * (1 - weights)).sum(1).mean()) / 0.9)
        return Computed([1.0, 1.0], [float(shares[0] < 0.2), float(shares[1] > 0.8)])


def areas_of_keys() -> Computed:
    """v . act(W_0 phi(K) + W_1 phi(K) + b) in the text, phi a mean; q . key(area) / sqrt(d) in Li et al. 2019"""
    with drawn():
        module = make_alignment("area", _SIZE, _SIZE, 1, largest=2)
        randomize(module)
        weights = {name: weight.detach() for name, weight in module.named_parameters()}
        q, k = numbers(_SIZE), numbers(_KEYS, _SIZE)
        areas = [k[i : i + size] for size in (1, 2) for i in range(_KEYS - size + 1)]

        def key(area: Tensor) -> Tensor:
            mean = area.mean(0)
            deviation = ((area - mean).square().mean(0) + 1e-6).sqrt()
            features = torch.cat([mean, deviation, weights["area_key.sizes"][0, len(area) - 1]])
            inner = torch.relu(weights["area_key.into"][0] @ features + weights["area_key.into_bias"][0, 0])
            return weights["area_key.out"][0] @ inner + weights["area_key.out_bias"][0, 0]

        v, w_0, w_1, b = numbers(_SIZE), numbers(_SIZE, _SIZE), numbers(_SIZE, _SIZE), numbers(_SIZE)
        text = torch.stack([v @ torch.tanh(w_0 @ area.mean(0) + w_1 @ area.mean(0) + b) for area in areas])
        right = torch.stack([q @ key(area) / math.sqrt(_SIZE) for area in areas])
        return Computed(text, module(q[None, None, None], module.prepare(k[None, None], k[None, None])), right)
