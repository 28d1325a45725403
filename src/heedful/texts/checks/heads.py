"""Heads and scores: how large products of queries and keys become, what a mean loses, and what heads cost."""

import math
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from heedful.base.packed import Layout
from heedful.nn.alignments.base import Alignment
from heedful.nn.alignments.distributions import softmax
from heedful.nn.alignments.products import ScaledDot
from heedful.nn.alignments.table import make_alignment
from heedful.nn.attention.backends import explicit
from heedful.nn.attention.explicit import attend
from heedful.nn.attention.multi_head import SelfAttention
from heedful.texts.checks.by_hand import written_softmax
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_SIZE = 4


def compatibility_functions() -> Computed:
    """output = sum_i w_i v_i, w_i by the compatibility of the query with key i: a product, or a network of one layer"""
    with drawn():
        q, k, v = numbers(1, _SIZE), numbers(3, _SIZE), numbers(3, 5)
        network: Any = randomize(make_alignment("additive", _SIZE, _SIZE, 1))
        w_q, w_k, vector = network.query_weight[0], network.key_weight[0], network.vector[0, 0]
        scores = [
            [float(q[0] @ key) for key in k],
            [float((vector @ torch.tanh(w_q @ q[0] + w_k @ key)).detach()) for key in k],
        ]
        text = [
            sum((w * one for w, one in zip(written_softmax(row), v, strict=True)), torch.zeros(5).double())
            for row in scores
        ]
        modules: list[Alignment] = [make_alignment("dot", _SIZE, _SIZE, 1), network]
        ours = [
            attend(one, softmax, q[None, None], one.prepare(k[None, None], v[None, None]))[0][0, 0, 0].detach()
            for one in modules
        ]
        return Computed(torch.stack(text), torch.stack(ours))


def products_grow() -> Computed:
    """The deviation of q . k is sqrt(d_k) for unit normal numbers, and 1 after the division: d_k of 4, 64 and 1024"""
    found = []
    for width in (4, 64, 1024):
        with drawn():
            q, k = torch.randn(2000, width), torch.randn(2000, width)
            module = ScaledDot(width, width, 1)
            scores = module(q[None, None], module.prepare(k[None, None], k[None, None]))[0, 0]
            found += [float((q @ k.T).std()) / math.sqrt(width), float(scores.std())]
    return Computed([1.0] * 6, found, tolerance=0.03)


def gradients_of_large_products() -> Computed:
    """The gradient through a softmax of ten unscaled products vanishes with d_k; with the scale it does not

    Mean of the greatest derivative dw_i / ds_j at d_k of 16 and 65,536: unscaled the second is next to 0, scaled it is
    that of the first.
    """
    means = []
    for width, divisor in ((16, 4.0), (65_536, 1.0), (65_536, 256.0)):
        with drawn():
            weights = softmax((torch.randn(300, 10).double() * math.sqrt(width)) / divisor)
            jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
            means.append(float(jacobian.abs().amax(dim=(1, 2)).mean()))
    return Computed([0.0, 1.0], [means[1] / means[0], means[2] / means[0]], tolerance=0.05)


def mean_of_two_places() -> Computed:
    """A head that weighs two places alike reads the same when their values change places; two heads tell them apart

    Differences of what is read before and after: none with one head, the whole difference with a head for each place.
    """
    with drawn():
        a, b = numbers(_SIZE), numbers(_SIZE)
        q, both = torch.zeros(1, _SIZE).double(), torch.zeros(2, _SIZE).double()
        near = 1e3 * torch.eye(2, _SIZE).double()

        def read(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            module = ScaledDot(_SIZE, _SIZE, 1)
            return attend(module, softmax, query[None, None], module.prepare(keys[None, None], values[None, None]))[0]

        ab, ba = torch.stack([a, b]), torch.stack([b, a])
        one = read(q, both, ab) - read(q, both, ba)
        two = torch.cat([read(near[[head]], near, ab) - read(near[[head]], near, ba) for head in range(2)])
        return Computed(torch.cat([torch.zeros(_SIZE), a - b, b - a]), torch.cat([one.flatten(), two.flatten()]))


def operations_of_heads() -> Computed:
    """Operations of one head of full width, 512, and of 8 heads of 64, over 50 tokens, counted while they run

    By hand: 4 projections of n d^2 products and 2 n^2 d for scores and sums, two operations each, whatever h is.
    """
    n, d = 50, 512
    counted = []
    for heads in (1, 8):
        with drawn(), torch.no_grad():
            layer, counter = SelfAttention(d, heads, backend=explicit, bias=False), FlopCounterMode(display=False)
            with counter:
                layer(torch.randn(n, d), Layout.of([n]))
            counted.append(counter.get_total_flops())
    by_hand = 2 * (4 * n * d**2 + 2 * n**2 * d)
    return Computed([by_hand, by_hand], counted)


def space_of_scores() -> Computed:
    """Numbers that are kept for the backward pass: dot products need one per query and key, additive scores d more

    Of 50 queries and 50 keys with d = 64; 1 where dot products need less.
    """
    kept = []
    for name in ("dot", "additive"):
        with drawn():
            module, sizes = make_alignment(name, 64, 64, 1), list[int]()
            q, k = (torch.randn(1, 1, 50, 64, requires_grad=True) for _ in "qk")

            def keep(tensor: Tensor, sizes: list[int] = sizes) -> Tensor:
                sizes.append(tensor.numel())
                return tensor

            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                module(q, module.prepare(k, k))
            kept.append(sum(sizes))
    return Computed([1.0], [float(kept[0] < kept[1])])


# --- as the slides write them -----------------------------------------------------------------------------------------


def _head_matrices(layer: SelfAttention) -> list[Tensor]:
    """Return W_Q, W_K and W_V of the first head, as columns."""
    return [rows[: layer.shape.key_width].detach().T for rows in layer.project.weight.chunk(3)]


def vectors_of_a_word() -> Computed:
    """q1 = x1 W_Q, k1 = x1 W_K, v1 = x1 W_V of 64 numbers each, from an embedding of 512; the first three of each"""
    with drawn():
        layer = SelfAttention(512, 8, bias=False)
        x = torch.randn(1, 512)
        text = [x @ matrix for matrix in _head_matrices(layer)]
        ours = layer.split.split_all(layer.project(x))
        sizes = [float(one.shape[2]) for one in ours]
        return Computed(
            [64.0, 64.0, 64.0, *(float(value) for one in text for value in one[0, :3])],
            [*sizes, *(float(value) for one in ours for value in one[0, 0, :3].detach())],
            tolerance=1e-5,
        )


def keys_queries_and_values() -> Computed:
    """K = (K^T x(t))_t, Q = (Q^T x(t))_t, V = (V^T x(t))_t, with matrices of parameters K, Q and V"""
    with drawn():
        layer, x = cast(SelfAttention, randomize(SelfAttention(_SIZE, 1, bias=False))), numbers(3, _SIZE)
        matrices = _head_matrices(layer)
        text = [torch.stack([matrix.T @ one for one in x]) for matrix in matrices]
        ours = layer.split.split_all(layer.project(x))
        return Computed(torch.cat(text), torch.cat([one[:, 0].detach() for one in ours]))


def attention_weights() -> Computed:
    """alpha_ij = softmax(Q K^T / sqrt(d_k))_ij"""
    with drawn():
        layer, x = cast(SelfAttention, randomize(SelfAttention(_SIZE, 1, bias=False))), numbers(3, _SIZE)
        w_q, w_k, _ = _head_matrices(layer)
        scores = (x @ w_q) @ (x @ w_k).T / math.sqrt(_SIZE)
        text = torch.tensor([written_softmax(row) for row in scores.tolist()])
        return Computed(text, layer.weights(x, Layout.of([3]))[0, 0].detach())


def softmax_times_value() -> Computed:
    """z1 = softmax * v1 + softmax * v2 with scores of 112 and 96 over 8: 0.88 v1 + 0.12 v2, two digits each"""
    q, k = torch.zeros(1, 64).double(), torch.zeros(2, 64).double()
    q[0, 0], k[0, 0], k[1, 0] = 8.0, 14.0, 12.0
    v = torch.eye(2).double()
    module = ScaledDot(64, 64, 1)
    z, _ = attend(module, softmax, q[None, None], module.prepare(k[None, None], v[None, None]))
    return Computed([0.88 * 1 + 0.12 * 0, 0.88 * 0 + 0.12 * 1], [round(float(value), 2) for value in z[0, 0, 0]])


def intact_values() -> Computed:
    """The share of v1 in z1, with scores of 112 and 96 over 8: 1 if the value stays intact, as the slide says; 0.88"""
    return Computed([1.0], [float(softmax(torch.tensor([112.0, 96.0], dtype=torch.float64) / 8)[0])])


def gradients_of_the_example() -> Computed:
    """dw_1/ds_1 = w_1 (1 - w_1): 1e-7 at scores of 112 and 96, next to nothing; 0.1 after the division by 8"""
    q, k = torch.zeros(1, 64).double(), torch.zeros(2, 64).double()
    q[0, 0], k[0, 0], k[1, 0] = 8.0, 14.0, 12.0
    text, ours = [], []
    for name, scores in (("dot", (112.0, 96.0)), ("scaled_dot", (14.0, 12.0))):
        w_1 = written_softmax(list(scores))[0]
        text.append(w_1 * (1 - w_1))
        module = make_alignment(name, 64, 64, 1)
        s = module(q[None, None], module.prepare(k[None, None], k[None, None])).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(softmax(s)[0, 0, 0, 0], s)
        ours.append(float(gradient[0, 0, 0, 0]))
    return Computed(text, ours, tolerance=1e-12)


def all_heads_in_the_output() -> Computed:
    """1 for each of eight heads whose values change Z, the concatenation of all heads times W^o"""
    with drawn():
        layer, layout = cast(SelfAttention, randomize(SelfAttention(16, 8, bias=False))), Layout.of([3])
        x = numbers(3, 16)
        z, width, changed = layer(x, layout), layer.shape.value_width, []
        values = layer.project.weight.detach().chunk(3)[2]
        for head in range(8):
            rows = values[head * width : (head + 1) * width]
            kept = rows.clone()
            rows.zero_()
            changed.append(float((layer(x, layout) - z).abs().max() > 1e-6))
            rows.copy_(kept)
        return Computed([1.0] * 8, changed)
