"""Attention as the tutorial derives it: from a weighted sum of inputs to queries, keys, values and heads.

Its vectors are columns: X and V have one column for each of t inputs, and A one column for each query.
"""

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from heedful.base.packed import Layout
from heedful.config.model.transformer import TransformerModel
from heedful.nn.alignments.distributions import Hard, softmax
from heedful.nn.alignments.table import make_alignment
from heedful.nn.attention.explicit import attend
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.layers.pooling import MeanPool
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_INPUTS, _WIDTH = 4, 3  # t and n, or d
Distribution = Callable[..., Tensor]


def _read(q: Tensor, k: Tensor, v: Tensor, distribution: Distribution = softmax) -> tuple[Tensor, Tensor]:
    """Return what queries read, and their weights, by Heedful, with dot products; all vectors are columns."""
    alignment = make_alignment("dot", q.shape[0], k.shape[0], 1)
    candidates = alignment.prepare(k.T[None, None], v.T[None, None])
    read, weights = attend(alignment, distribution, q.T[None, None], candidates)
    return read[0, 0].T, weights[0, 0].T


def _hard() -> Distribution:
    return Hard(softmax).eval()


def _soft(scores: Tensor) -> Tensor:
    exps = [math.exp(score) for score in scores.tolist()]
    return torch.tensor([exp / sum(exps) for exp in exps], dtype=torch.float64)


def _one_hot(scores: Tensor) -> Tensor:
    best = max(range(len(scores)), key=lambda place: float(scores[place]))
    return torch.tensor([float(place == best) for place in range(len(scores))], dtype=torch.float64)


# --- self-attention as a sum of inputs --------------------------------------------------------------------------------


def sum_of_inputs() -> Computed:
    """h = a_1 x_1 + .. + a_t x_t"""
    with drawn():
        x = numbers(_WIDTH, _INPUTS)
        a = _soft(x.T @ x[:, 0]).tolist()
        return Computed(cast(Tensor, sum(a[i] * x[:, i] for i in range(_INPUTS))), _read(x[:, :1], x, x)[0][:, 0])


def inputs_times_weights() -> Computed:
    """h = X a"""
    with drawn():
        x = numbers(_WIDTH, _INPUTS)
        return Computed(x @ _soft(x.T @ x[:, 0]), _read(x[:, :1], x, x)[0][:, 0])


def hard_weights() -> Computed:
    """a = argmax(X^T x_i), one-hot, for every i"""
    with drawn():
        x = numbers(_WIDTH, _INPUTS)
        text = torch.stack([_one_hot(x.T @ x[:, i]) for i in range(_INPUTS)], dim=1)
        return Computed(text, _read(x, x, x, _hard())[1])


def soft_weights() -> Computed:
    """a = softargmax(X^T x_i), for every i, and its sum of 1"""
    with drawn():
        x = numbers(_WIDTH, _INPUTS)
        text = torch.stack([_soft(x.T @ x[:, i]) for i in range(_INPUTS)], dim=1)
        weights = _read(x, x, x)[1]
        return Computed(
            [*text.flatten().tolist(), *[1.0] * _INPUTS], [*weights.flatten().tolist(), *weights.sum(0).tolist()]
        )


def all_weights_at_once() -> Computed:
    """H = X A, with the weights of all t queries as the columns of A"""
    with drawn():
        x = numbers(_WIDTH, _INPUTS)
        a = torch.stack([_soft(x.T @ x[:, i]) for i in range(_INPUTS)], dim=1)
        return Computed(x @ a, _read(x, x, x)[0])


def norm_of_hard_weights() -> Computed:
    """||a||_0 = 1 in the text, which (0, 2, 0) has too: its norm and its largest weight; one weight is 1"""
    weights = torch.tensor([0.0, 2.0, 0.0])
    found = _hard()(torch.tensor([0.1, 3.0, -1.0]))
    text, ours = ([float(a.count_nonzero()), float(a.max())] for a in (weights, found))
    return Computed(text, ours, [1.0, 1.0])


def norm_of_soft_weights() -> Computed:
    """||a||_1 = 1 in the text, which (0.75, -0.25, 0) has too: its norm and its sum; no weight is negative"""
    weights = torch.tensor([0.75, -0.25, 0.0])
    found = softmax(torch.tensor([0.1, 3.0, -1.0]))
    text, ours = ([float(a.abs().sum()), float(a.sum())] for a in (weights, found))
    return Computed(text, ours, [1.0, 1.0])


def longest_input() -> Computed:
    """Of (1, 0) and (2, 2), (1, 0) is the more similar to (1, 0), number 0; by dot products, 1 and 2, it is number 1"""
    x = torch.tensor([[1.0, 2.0], [0.0, 2.0]], dtype=torch.float64)
    return Computed([0.0], [float(_read(x[:, :1], x, x, _hard())[1][:, 0].argmax())])


def pooling_with_equal_scores() -> Computed:
    """Where all scores are alike, attention is mean pooling"""
    with drawn():
        x = numbers(_WIDTH, _INPUTS)
        ours = _read(torch.zeros(_WIDTH, 1).double(), x, x)[0]
        return Computed(MeanPool()(x.T, Layout.of([_INPUTS]))[0], ours)


# --- keys and values --------------------------------------------------------------------------------------------------


def recipe_book() -> Computed:
    """Argmax retrieves the value of the best key alone; with a soft argmax values are ordered as their keys match"""
    with drawn():
        q, titles, recipes = numbers(_WIDTH, 1), numbers(_WIDTH, _INPUTS), numbers(2, _INPUTS)
        scores = titles.T @ q[:, 0]
        order = sorted(range(_INPUTS), key=lambda place: -float(scores[place]))
        found = _read(q, titles, recipes, _hard())[0]
        ranked = _read(q, titles, recipes)[1][:, 0].argsort(descending=True)
        return Computed([*recipes[:, order[0]].tolist(), *order], [*found[:, 0].tolist(), *ranked.tolist()])


def query_key_value() -> Computed:
    """q = W_q x, k = W_k x, v = W_v x, without a non-linearity"""
    with drawn():
        module, x = cast(CrossAttention, randomize(CrossAttention(_WIDTH, 1, bias=False))), numbers(_WIDTH)
        (w_k, w_v), w_q = module.project_memory.weight.detach().chunk(2), module.project_query.weight.detach()
        ours = torch.cat([module.project_query(x[None])[0], module.project_memory(x[None])[0]])
        return Computed(torch.cat([w_q @ x, w_k @ x, w_v @ x]), ours)


def keys_of_a_query() -> Computed:
    """a = [soft]argmax(K^T q) and h = V a, soft and hard, with values of another width"""
    with drawn():
        q, k, v = numbers(_WIDTH, 1), numbers(_WIDTH, _INPUTS), numbers(2, _INPUTS)
        text = [weigh(k.T @ q[:, 0]) for weigh in (_soft, _one_hot)]
        ours = [_read(q, k, v, weigh) for weigh in (softmax, _hard())]
        return Computed(
            torch.cat([part for a in text for part in (a, v @ a)]),
            torch.cat([part for h, a in ours for part in (a[:, 0], h[:, 0])]),
        )


def all_queries_at_once() -> Computed:
    """H = V A, with the weights of t queries as the columns of A"""
    with drawn():
        q, k, v = numbers(_WIDTH, _INPUTS), numbers(_WIDTH, _INPUTS), numbers(_WIDTH, _INPUTS)
        a = torch.stack([_soft(k.T @ q[:, i]) for i in range(_INPUTS)], dim=1)
        return Computed(v @ a, _read(q, k, v)[0])


def orientation_of_queries() -> Computed:
    """Weights of a query and of twice the query differ by 0 if only orientation counts; by dot products they differ"""
    with drawn():
        q, k = numbers(_WIDTH, 1), numbers(_WIDTH, _INPUTS)
        once, twice = (_read(times * q, k, k)[1] for times in (1, 2))
        return Computed([0.0], [float((once - twice).abs().max())])


def widths_of_keys() -> Computed:
    """K^T q is defined where q and k have one width, 1, and not where they do not, 0"""
    with drawn():
        found = []
        for width in (_WIDTH, _WIDTH + 1):
            try:
                _read(numbers(_WIDTH, 1), numbers(width, _INPUTS), numbers(2, _INPUTS))
                found.append(1.0)
            except (RuntimeError, ValueError):
                found.append(0.0)
        return Computed([1.0, 0.0], found)


def divided_width() -> Computed:
    """d is divided between the heads: 8 by 4 gives heads of width 2; 6 cannot be divided by 4: 0"""
    widths = []
    with torch.device("meta"):
        for width in (8, 6):
            try:
                model = TransformerModel(family="transformer", width=width, heads=4)
                widths.append(float(SelfAttention(model.width, model.heads).shape.key_width))
            except ValueError:  # of the recipe
                widths.append(0.0)
    return Computed([2.0, 0.0], widths)


# --- one product for all ----------------------------------------------------------------------------------------------


def _tall(heads: int) -> Computed:
    """Compare W_q x, W_k x and W_v x of every head, each of d rows, with Heedful's one product."""
    with drawn():
        options = {"key_width": _WIDTH, "value_width": _WIDTH}
        module = cast(SelfAttention, randomize(SelfAttention(_WIDTH, heads, bias=False, **options)))  # type: ignore[arg-type]
        x, rows = numbers(_WIDTH), module.project.weight.detach()
        blocks = [rows[first : first + _WIDTH] for first in range(0, 3 * heads * _WIDTH, _WIDTH)]
        return Computed(torch.cat([block @ x for block in blocks]), module.project(x[None])[0])


def one_tall_matrix() -> Computed:
    """[q; k; v] = [W_q; W_k; W_v] x, 3d numbers"""
    return _tall(heads=1)


def tall_matrix_of_heads() -> Computed:
    """[q^1 .. q^h; k^1 .. k^h; v^1 .. v^h] = W x, 3hd numbers: here every head has the width d"""
    return _tall(heads=2)


def heads_to_one_width() -> Computed:
    """W_h, of d rows and hd columns, turns the values of h heads of width d into d numbers"""
    with drawn():
        heads, options = 2, {"key_width": _WIDTH, "value_width": _WIDTH}
        module = cast(SelfAttention, randomize(SelfAttention(_WIDTH, heads, bias=False, **options)))  # type: ignore[arg-type]
        x = numbers(_WIDTH, _INPUTS)
        parts = (module.project.weight.detach() @ x).split(_WIDTH)
        read = []
        for q, k, v in zip(parts[:heads], parts[heads : 2 * heads], parts[2 * heads :], strict=True):
            a = torch.stack([_soft(k.T @ q[:, i] / math.sqrt(_WIDTH)) for i in range(_INPUTS)], dim=1)
            read.append(v @ a)
        w_h = module.output.weight.detach()
        return Computed(w_h @ torch.cat(read), module(x.T, Layout.of([_INPUTS])).T)
