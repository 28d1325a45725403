"""Alignments against their equations in loops over batch, head, query and key; attention with them, also linear."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from heedful.nn.alignments.area import Area
from heedful.nn.alignments.base import Alignment, Candidates
from heedful.nn.alignments.random_features import (
    Kernel,
    causal_linear_attention,
    linear_attention,
    orthogonal_directions,
)
from heedful.nn.alignments.table import ALIGNMENTS, make_alignment
from heedful.nn.attention.explicit import attend

BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 2, 3, 5, 4  # the width is that of values
CASES: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "content": ("content", 3, 3, {}),
    "dot": ("dot", 3, 3, {}),
    "scaled dot": ("scaled_dot", 3, 3, {}),
    "general": ("general", 3, 2, {}),
    "biased general": ("biased_general", 3, 2, {}),
    "activated general": ("activated_general", 3, 2, {}),
    "activated general, sigmoid": ("activated_general", 3, 2, {"activation": "sigmoid"}),
    "kernel": ("kernel", 3, 3, {"features": 7, "seed": 5}),
    "additive": ("additive", 3, 2, {}),
    "additive, wide": ("additive", 3, 2, {"inner": 6}),
    "deep": ("deep", 3, 2, {}),
    "deep, one layer": ("deep", 3, 2, {"depth": 2, "inner": 5, "activation": "tanh"}),
    "location": ("location", 3, 2, {"max_length": 6}),
    "area": ("area", 3, 3, {}),
    "area, mean": ("area", 3, 3, {"features": "mean", "largest": 4}),
    "area, small": ("area", 3, 3, {"largest": 1}),
    "area, larger than the memory": ("area", 3, 3, {"largest": 8}),
}
EACH = pytest.mark.parametrize("case", CASES)


def made(case: str) -> Alignment:
    """The alignment of a case in float64, with every parameter drawn, those that start at zero as well."""
    name, query_width, key_width, options = CASES[case]
    alignment = make_alignment(name, query_width, key_width, HEADS, **options).double()
    for parameter in alignment.parameters():
        nn.init.normal_(parameter, std=0.7)
    return alignment


def drawn(case: str, queries: int = QUERIES, keys: int = KEYS) -> tuple[Tensor, Tensor, Tensor]:
    _, query_width, key_width, _ = CASES[case]
    shapes = ((queries, query_width), (keys, key_width), (keys, WIDTH))
    q, k, v = (torch.randn(BATCH, HEADS, *shape, dtype=torch.float64) for shape in shapes)
    return q, k, v


def softmax(scores: Tensor, seen: Tensor | None) -> Tensor:
    return (scores if seen is None else scores.masked_fill(~seen, -math.inf)).softmax(-1)


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


# --- the equations ----------------------------------------------------------------------------------------------------

Score = Callable[[Any, int, Tensor, Tensor, int], Tensor]  # of an alignment, a head, a query, a key and its place


def content(a: Any, head: int, q: Tensor, k: Tensor, place: int) -> Tensor:
    beta = torch.log(1 + torch.exp(a.strength[head, 0] @ q + a.bias[head, 0, 0]))
    return beta * (q @ k) / (q.square().sum().sqrt() * k.square().sum().sqrt())


def bilinear(a: Any, head: int, q: Tensor, k: Tensor) -> Tensor:
    return torch.stack([q[i] * a.weight[head, i, j] * k[j] for i in range(len(q)) for j in range(len(k))]).sum()


def biased_general(a: Any, head: int, q: Tensor, k: Tensor, place: int) -> Tensor:
    return k @ (a.weight[head] @ q + a.bias[head, 0])


def activated_general(a: Any, head: int, q: Tensor, k: Tensor, place: int) -> Tensor:
    x = bilinear(a, head, q, k) + a.bias[head, 0, 0]
    return 1 / (1 + torch.exp(-x)) if a.activation is torch.sigmoid else torch.tanh(x)


def kernel(a: Any, head: int, q: Tensor, k: Tensor, place: int) -> Tensor:
    def phi(x: Tensor) -> Tensor:
        scaled = x / len(x) ** 0.25
        directions = a.directions[head]
        return torch.stack([torch.exp(w @ scaled - scaled @ scaled / 2) for w in directions]) / math.sqrt(
            len(directions)
        )

    return torch.log(phi(q) @ phi(k))


def concatenated(a: Any, head: int, q: Tensor, k: Tensor, place: int) -> Tensor:
    """Luong's form: one matrix over [q; k]."""
    both = torch.cat((a.query_weight[head], a.key_weight[head]), dim=1)
    return a.vector[head, 0] @ torch.tanh(both @ torch.cat((q, k)))


def deep(a: Any, head: int, q: Tensor, k: Tensor, place: int) -> Tensor:
    def act(x: Tensor) -> Tensor:
        return torch.tanh(x) if a.activation is torch.tanh else x.clamp(min=0)

    inner = act(a.key_weight[head] @ k + a.query_weight[head] @ q + a.key_bias[head, 0])
    for weight, bias in zip(a.weights, a.biases, strict=True):
        inner = act(weight[head] @ inner + bias[head, 0])
    return a.vector[head, 0] @ inner + a.bias[head, 0, 0]


SCORES: dict[str, Score] = {
    "content": content,
    "dot": lambda a, head, q, k, place: q @ k,
    "scaled_dot": lambda a, head, q, k, place: q @ k / math.sqrt(len(q)),
    "general": lambda a, head, q, k, place: bilinear(a, head, q, k),
    "biased_general": biased_general,
    "activated_general": activated_general,
    "kernel": kernel,
    "additive": concatenated,
    "deep": deep,
    "location": lambda a, head, q, k, place: a.weight[head, place] @ q,
    "area": lambda a, head, q, k, place: q @ k / math.sqrt(len(q)),  # k: the key of an area
}


def areas(largest: int, length: int) -> list[range]:
    return [range(first, first + size) for size in range(1, largest + 1) for first in range(length - size + 1)]


def area_keys(a: Any, head: int, keys: Tensor) -> list[Tensor]:
    """The keys of all areas of one head of one memory."""
    found = []
    for area in areas(a.largest, len(keys)):
        mean = keys[list(area)].mean(0)
        deviation = ((keys[list(area)] - mean).square().mean(0) + 1e-6).sqrt()
        key = mean
        if list(a.parameters()):
            p = a.area_key
            features = torch.cat((mean, deviation, p.sizes[head, len(area) - 1]))
            inner = (p.into[head] @ features + p.into_bias[head, 0]).clamp(min=0)
            key = p.out[head] @ inner + p.out_bias[head, 0]
        found.append(key)
    return found


@EACH
def test_scores_are_those_of_the_equation(case: str) -> None:
    name, alignment = CASES[case][0], made(case)
    q, k, v = drawn(case)
    scores = alignment(q, alignment.prepare(k, v))
    for b in range(BATCH):
        for head in range(HEADS):
            keys = area_keys(alignment, head, k[b, head]) if name == "area" else list(k[b, head])
            assert scores.shape == (BATCH, HEADS, QUERIES, len(keys))
            for i in range(QUERIES):
                for place, key in enumerate(keys):
                    expected = SCORES[name](alignment, head, q[b, head, i], key, place)
                    close(scores[b, head, i, place], expected)


class Scores(nn.Module):
    """Both halves of an alignment in one call, so that parameters can be handed in."""

    def __init__(self, alignment: Alignment) -> None:
        super().__init__()
        self.alignment = alignment

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores: Tensor = self.alignment(q, self.alignment.prepare(k, v))
        return scores


@EACH
def test_gradients_of_queries_keys_and_parameters_are_those_of_differences(case: str) -> None:
    module = Scores(made(case))
    q, k, v = (x[:1] for x in drawn(case, queries=2, keys=3))
    names = [name for name, _ in module.named_parameters()]

    def scores(q: Tensor, k: Tensor, *parameters: Tensor) -> Tensor:
        return functional_call(module, dict(zip(names, parameters, strict=True)), (q, k, v))

    inputs = [q, k, *(parameter.detach() for parameter in module.parameters())]
    assert torch.autograd.gradcheck(scores, [tensor.clone().requires_grad_() for tensor in inputs])


@EACH
def test_every_parameter_starts_finite_and_learns(case: str) -> None:
    name, query_width, key_width, options = CASES[case]
    alignment = make_alignment(name, query_width, key_width, HEADS, **options).double()
    q, k, v = drawn(case, keys=6)
    q.requires_grad_()
    scores = alignment(q, alignment.prepare(k, v))
    assert scores.isfinite().all()
    (scores * torch.randn_like(scores)).sum().backward()
    for parameter in alignment.parameters():
        assert parameter.grad is not None
        assert (parameter.grad.flatten(1) != 0).any(1).all()  # in each head


@pytest.mark.parametrize("name", ["general", "scaled_dot", "content", "kernel", "location", "additive"])
def test_scores_of_random_vectors_start_about_as_spread_as_those_of_the_scaled_dot_product(name: str) -> None:
    options: dict[str, Any] = {"location": {"max_length": 50}, "kernel": {"features": 2048}}.get(name, {})
    alignment = make_alignment(name, 64, 64, 4, **options)
    q, k, v = torch.randn(3, 2, 4, 50, 64)
    with torch.no_grad():
        spread = alignment(q, alignment.prepare(k, v)).std(-1).mean()
    assert 0.7 < float(spread) < 1.5


def test_the_strength_of_content_starts_at_the_root_of_the_width() -> None:
    alignment = make_alignment("content", 9, 9, 1)
    x = torch.randn(1, 1, 1, 9)
    assert float(alignment(x, alignment.prepare(5 * x, x)).detach()) == pytest.approx(3, abs=1e-5)


def test_vectors_of_no_length_have_a_score_and_a_bounded_gradient() -> None:
    alignment = make_alignment("content", 3, 3, 1)
    nothing, something = torch.zeros(1, 1, 2, 3, requires_grad=True), torch.randn(1, 1, 2, 3)
    for q, k in ((nothing, something), (something, nothing), (nothing, nothing)):
        scores = alignment(q, alignment.prepare(k, k))
        assert (scores == 0).all()
        assert (torch.autograd.grad(scores.sum(), nothing)[0].abs() < 1e7).all()


# --- candidates and attention -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("largest", [1, 3])
def test_areas_are_all_short_stretches_with_summed_values_that_count_when_all_their_keys_do(
    length: int, largest: int
) -> None:
    alignment = make_alignment("area", 3, 3, HEADS, largest=largest)
    k, v = torch.randn(2, BATCH, HEADS, length, 3)
    keep = torch.rand(BATCH, length) > 0.3
    found = alignment.prepare(k, v, keep)
    expected = areas(largest, length)
    assert found.keep is not None
    assert found.last is not None
    assert found.last.tolist() == [area[-1] for area in expected]
    for place, area in enumerate(expected):
        close(found.values[:, :, place], v[:, :, list(area)].sum(2), 1e-6)
        assert torch.equal(found.keep[:, place], keep[:, list(area)].all(1))
    assert alignment.prepare(k, v).keep is None


def test_deviations_of_areas_keep_their_digits_far_from_zero() -> None:
    """Differences of squares of 1000 would leave nothing of a deviation of 0.01 in float32."""
    alignment, seen = listened_area(largest=2)
    k = (1000 + 0.01 * torch.arange(400.0) % 2).reshape(1, 1, 200, 2)
    alignment.prepare(k, k)
    expected = (k.double().unfold(2, 2, 1).var(-1, correction=0) + 1e-6).sqrt()
    close(seen[1][:, :, 200:].double(), expected, 1e-5)


def test_features_of_areas_of_bfloat16_keys_are_rounded_once() -> None:
    alignment, seen = listened_area(largest=8)
    k = torch.randn(1, 1, 200, 2).bfloat16()
    alignment.prepare(k, k)
    stretches = k.double().unfold(2, 8, 1)
    for found, expected in zip(seen, (stretches.mean(-1), stretches.std(-1, correction=0)), strict=False):
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found[:, :, -193:].double(), expected, atol=1e-6, rtol=2**-8)


def listened_area(largest: int) -> tuple[Area, list[Tensor]]:
    """An alignment, and the means and deviations of areas that it prepared."""
    alignment = Area(2, 2, 1, largest=largest)
    seen: list[Tensor] = []
    alignment.area_key.register_forward_hook(lambda module, inputs, output: seen.extend(inputs[:2]))
    return alignment, seen


@EACH
def test_prepared_keys_can_be_added_one_by_one_where_the_class_says_so(case: str) -> None:
    alignment = made(case)
    _, k, v = drawn(case)
    whole = alignment.prepare(k, v)
    parts = [alignment.prepare(k[:, :, i : i + 1], v[:, :, i : i + 1]) for i in range(KEYS)]
    assert alignment.one_to_one == (CASES[case][0] != "area")
    if alignment.one_to_one:
        close(torch.cat([part.keys for part in parts], dim=2), whole.keys)
        assert whole.last is None
        assert torch.equal(whole.values, v)


@EACH
def test_attention_is_the_weighted_sum_of_values_and_places_have_their_share(case: str) -> None:
    alignment = made(case)
    q, k, v = drawn(case)
    y, weights = attend(alignment, softmax, q, alignment.prepare(k, v))
    close(weights.sum(-1), torch.ones(BATCH, HEADS, QUERIES, dtype=torch.float64))
    shares = alignment.position_weights(weights, KEYS)
    for b in range(BATCH):
        for head in range(HEADS):
            for i in range(QUERIES):
                expected = torch.stack([shares[b, head, i, j] * v[b, head, j] for j in range(KEYS)]).sum(0)
                close(y[b, head, i], expected)


@EACH
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_neighbours_in_a_batch_cannot_change_a_result(case: str, causal: bool) -> None:
    alignment = made(case)
    q, k, v = drawn(case)
    keep = torch.rand(BATCH, KEYS) > 0.3
    keep[:, 0] = True
    together = attend(alignment, softmax, q, alignment.prepare(k, v, keep), causal)
    for b in range(BATCH):
        alone = slice(b, b + 1)
        candidates = alignment.prepare(k[alone], v[alone], keep[alone])
        for found, expected in zip(together, attend(alignment, softmax, q[alone], candidates, causal), strict=True):
            close(found[alone], expected)


@EACH
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_padding_cannot_change_a_result_and_has_no_gradient(case: str, causal: bool) -> None:
    alignment = made(case)
    q, k, v = drawn(case)
    keep = torch.tensor([[True, True, True, False, False], [True, False, True, True, False]])
    outside = ~keep[:, None, :, None]
    clean = attend(alignment, softmax, q, alignment.prepare(k, v, keep), causal)
    bad_k, bad_v = (torch.where(outside, 1e4 * torch.randn_like(x), x).requires_grad_() for x in (k, v))
    poisoned = attend(alignment, softmax, q, alignment.prepare(bad_k, bad_v, keep), causal)
    for found, expected in zip(poisoned, clean, strict=True):
        close(found, expected)
    for gradient in torch.autograd.grad(poisoned[0].sum(), (bad_k, bad_v), materialize_grads=True):
        assert (gradient.masked_select(outside) == 0).all()


@EACH
def test_a_causal_query_reads_what_it_would_from_the_memory_up_to_itself(case: str) -> None:
    alignment = made(case)
    q, k, v = drawn(case, queries=KEYS)
    y, _ = attend(alignment, softmax, q, alignment.prepare(k, v), causal=True)
    for i in range(KEYS):
        candidates = alignment.prepare(k[:, :, : i + 1], v[:, :, : i + 1])
        expected, _ = attend(alignment, softmax, q[:, :, i : i + 1], candidates)
        close(y[:, :, i : i + 1], expected)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
def test_the_scaled_dot_product_with_a_softmax_is_torchs_attention(causal: bool, masked: bool) -> None:
    alignment = made("scaled dot")
    q, k, v = drawn("scaled dot", queries=KEYS)
    keep = torch.tensor([[True] * KEYS, [True] * 3 + [False] * 2]) if masked else None
    mask = torch.ones(BATCH, 1, KEYS, KEYS, dtype=torch.bool)
    if keep is not None:
        mask = mask & keep[:, None, None, :]
    if causal:
        mask = mask.tril()
    y, _ = attend(alignment, softmax, q, alignment.prepare(k, v, keep), causal)
    close(y, F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_a_distribution_is_told_what_is_seen_and_not_that_all_is(causal: bool, masked: bool) -> None:
    told: list[Tensor | None] = []

    def listening(scores: Tensor, seen: Tensor | None) -> Tensor:
        told.append(seen)
        assert seen is None or seen.shape == scores.shape
        return softmax(scores, seen)

    alignment = made("dot")
    q, k, v = drawn("dot")
    keep = torch.tensor([[True] * KEYS, [True] * 3 + [False] * 2]) if masked else None
    attend(alignment, listening, q, alignment.prepare(k, v, keep), causal)
    assert (told[0] is None) == (not causal and not masked)
    if told[0] is not None:
        for b in range(BATCH):
            for i in range(QUERIES):
                expected = [(not causal or j <= i) and (keep is None or bool(keep[b, j])) for j in range(KEYS)]
                assert told[0][b, :, i].tolist() == [expected] * HEADS


@EACH
def test_bfloat16_values_flow_through_float32_parameters(case: str) -> None:
    alignment = made(case)
    q, k, v = drawn(case)
    narrow = [x.bfloat16() for x in (q, k, v)]
    expected, _ = attend(alignment, softmax, narrow[0].double(), alignment.prepare(*(x.double() for x in narrow[1:])))
    alignment.float()
    y, weights = attend(alignment, softmax, narrow[0], alignment.prepare(*narrow[1:]))
    assert y.dtype == torch.bfloat16
    assert weights.dtype == torch.float32
    assert float((y.double() - expected).detach().abs().max()) < 0.05 * float(expected.detach().abs().max())


# --- the kernel, and attention in linear time -------------------------------------------------------------------------


def test_the_kernel_comes_nearer_to_softmax_attention_with_more_features() -> None:
    q, k, v = 0.5 * torch.randn(3, 4, 8, 12, 16, dtype=torch.float64)
    exact = (q @ k.mT / 4).softmax(-1)
    errors = []
    for features in (16, 64, 256, 1024):
        alignment = make_alignment("kernel", 16, 16, 8, features=features).double()
        _, weights = attend(alignment, softmax, q, alignment.prepare(k, v))
        errors.append(float((weights - exact).abs().mean()))
    assert all(more < 0.7 * fewer for fewer, more in pairwise(errors))  # a half is the theory's
    assert errors[-1] < 0.006


def test_the_kernel_is_right_on_average_and_orthogonal_directions_err_less() -> None:
    width, draws = 8, 6_000
    q, k = 0.5 * torch.randn(2, width, dtype=torch.float64)
    exact = float(torch.exp(q @ k / math.sqrt(width)))

    def estimates(directions_NMD: Tensor) -> Tensor:
        x, y = q / width**0.25, k / width**0.25
        return torch.exp(directions_NMD @ (x + y) - (x @ x + y @ y) / 2).mean(1)

    generator = torch.Generator().manual_seed(2)
    orthogonal = estimates(orthogonal_directions(draws * width, width, generator).unflatten(0, (draws, width)))
    independent = estimates(torch.randn(draws, width, width, generator=generator, dtype=torch.float64))
    for found in (orthogonal, independent):
        assert abs(float(found.mean()) - exact) < 5 * float(found.std()) / math.sqrt(draws)
    assert float(orthogonal.var()) < 0.9 * float(independent.var())


def test_directions_are_orthogonal_in_blocks_as_long_as_random_vectors_and_saved() -> None:
    alignment, same, other = (make_alignment("kernel", 4, 4, 2, features=10, seed=seed) for seed in (1, 1, 2))
    saved = alignment.state_dict()["directions"]
    assert saved.shape == (2, 10, 4)
    assert torch.equal(saved, same.state_dict()["directions"])
    assert not torch.isclose(saved, other.state_dict()["directions"]).any()
    assert not torch.isclose(saved[0], saved[1]).any()
    for block in (saved[:, :4], saved[:, 4:8], saved[:, 8:]):
        products = block @ block.mT
        close(products, torch.diag_embed(products.diagonal(dim1=1, dim2=2)), 1e-5)
    long = orthogonal_directions(10_000, 4, torch.Generator().manual_seed(0)).square().sum(1)
    assert float(long.mean()) == pytest.approx(4, abs=5 * math.sqrt(8 / 10_000))  # chi-square: mean D, variance 2 D
    assert float(long.var()) == pytest.approx(8, rel=0.1)


def test_drawing_directions_does_not_touch_other_draws() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    make_alignment("kernel", 4, 4, 2)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("size", [1e-6, 1.0, 30.0, 1000.0])
def test_scores_of_the_kernel_are_numbers_for_vectors_of_any_size(size: float) -> None:
    alignment = make_alignment("kernel", 8, 8, HEADS, features=32)
    q, k = (size * torch.randn(BATCH, HEADS, 3, 8) for _ in range(2))
    q.requires_grad_()
    scores = alignment(q, alignment.prepare(k, k))
    assert scores.isfinite().all()
    assert torch.autograd.grad(scores.sum(), q)[0].isfinite().all()


def features(length: int) -> tuple[Tensor, Tensor, Tensor]:
    q, k = torch.rand(2, BATCH, HEADS, length, 6, dtype=torch.float64)
    return q, k, torch.randn(BATCH, HEADS, length, WIDTH, dtype=torch.float64)


def quadratic(q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None, causal: bool) -> Tensor:
    """The definition in loops; zeros where nothing is seen."""
    y = torch.zeros_like(v)
    for b in range(q.shape[0]):
        for head in range(q.shape[1]):
            for i in range(q.shape[2]):
                seen = [j for j in range(k.shape[2]) if (not causal or j <= i) and (keep is None or bool(keep[b, j]))]
                products = torch.stack([q[b, head, i] @ k[b, head, j] for j in seen]) if seen else torch.zeros(0)
                for j, product in zip(seen, products, strict=True):
                    y[b, head, i] += product / products.sum() * v[b, head, j]
    return y


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
def test_linear_attention_equals_quadratic_attention(masked: bool) -> None:
    q, k, v = features(7)
    keep = torch.rand(BATCH, 7) > 0.4 if masked else None
    close(linear_attention(q, k, v, keep), quadratic(q, k, v, keep, causal=False))
    close(linear_attention(q[:, :, :2], k, v, keep), quadratic(q, k, v, keep, causal=False)[:, :, :2])


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize(("length", "chunk"), [(7, 1), (7, 3), (6, 3), (7, 7), (7, 128), (1, 4)])
def test_causal_linear_attention_equals_quadratic_attention(length: int, chunk: int, masked: bool) -> None:
    q, k, v = features(length)
    keep = torch.rand(BATCH, length) > 0.4 if masked else None
    close(causal_linear_attention(q, k, v, keep, chunk), quadratic(q, k, v, keep, causal=True))


@pytest.mark.parametrize("attention", [linear_attention, causal_linear_attention])
def test_gradients_of_linear_attention_are_those_of_differences(attention: Callable[..., Tensor]) -> None:
    keep = torch.tensor([[True, True, False], [False, True, True]])
    inputs = [x.requires_grad_() for x in features(3)]
    assert torch.autograd.gradcheck(lambda q, k, v: attention(q, k, v, keep), inputs)


@pytest.mark.parametrize("attention", [linear_attention, causal_linear_attention])
def test_linear_attention_over_nothing_is_zero_with_finite_gradients(attention: Callable[..., Tensor]) -> None:
    alignment = make_alignment("kernel", 6, 6, HEADS)
    assert isinstance(alignment, Kernel)
    keep = torch.tensor([[True, True, False, True], [False] * 4])
    q, k, v = (torch.randn(BATCH, HEADS, 4, 6, requires_grad=True) for _ in range(3))
    y = attention(alignment.query_features(q), alignment.key_features(k, keep), v, keep)
    assert (alignment.key_features(k, keep).transpose(1, 2)[~keep] == 0).all()
    assert (y[1] == 0).all()
    for gradient in torch.autograd.grad(y.sum(), (q, k, v)):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("size", [1.0, 4.0])
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_linear_attention_is_what_the_kernel_gives_with_a_softmax(size: float, masked: bool, causal: bool) -> None:
    alignment = made("kernel")
    assert isinstance(alignment, Kernel)
    q, k, v = (size * x for x in drawn("kernel", queries=KEYS))
    keep = torch.tensor([[True] * KEYS, [True] * 3 + [False] * 2]) if masked else None
    if keep is not None:
        k = torch.where(keep[:, None, :, None], k, 1e3)  # padding has no say in how features are scaled
    expected, _ = attend(alignment, softmax, q, alignment.prepare(k, v, keep), causal)
    attention: Callable[..., Tensor] = causal_linear_attention if causal else linear_attention
    close(attention(alignment.query_features(q), alignment.key_features(k, keep), v, keep), expected, 1e-10)


class Largest(TorchDispatchMode):
    """Keeps the size of the largest tensor that is computed."""

    size = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and not any(made is arg for arg in args):
            self.size = max(self.size, made.untyped_storage().nbytes() // made.element_size())
        return made


@pytest.mark.parametrize("attention", [linear_attention, causal_linear_attention])
def test_linear_attention_makes_nothing_of_quadratic_size(attention: Callable[..., Tensor]) -> None:
    length, count, width = 2048, 16, 32
    q, k = torch.rand(2, 1, 1, length, count)
    with Largest() as largest:  # type: ignore[no-untyped-call]
        attention(q, k, torch.randn(1, 1, length, width))
    assert 0 < largest.size <= length * 128  # neither length ** 2 nor length * count * width


# --- the table and its errors -----------------------------------------------------------------------------------------


def test_the_table_has_the_eleven_functions_and_all_are_tested() -> None:
    assert len(ALIGNMENTS) == 11
    assert {name for name, *_ in CASES.values()} == set(ALIGNMENTS)


@pytest.mark.parametrize("name", ALIGNMENTS)
def test_widths_may_differ_exactly_where_the_class_says_so(name: str) -> None:
    options = {"max_length": 4} if ALIGNMENTS[name].fixed_length else {}
    if ALIGNMENTS[name].equal_widths:
        with pytest.raises(ValueError, match=r"must be equal, but are 3 and 2 \(General accepts any widths\)$"):
            make_alignment(name, 3, 2, 1, **options)
    else:
        alignment = make_alignment(name, 3, 2, 1, **options)
        q, k = torch.randn(1, 1, 5, 3), torch.randn(1, 1, 4, 2)
        assert alignment(q, alignment.prepare(k, k)).shape == (1, 1, 5, 4)


def test_an_unknown_name_is_refused_with_all_names() -> None:
    with pytest.raises(ValueError, match=r"^there is no alignment `dots`: it must be one of content, dot, .*, area$"):
        make_alignment("dots", 3, 3, 1)


def test_a_memory_with_more_places_than_the_location_matrix_is_refused() -> None:
    alignment = make_alignment("location", 3, 3, 1, max_length=4)
    x = torch.randn(1, 1, 5, 3)
    message = r"^the memory has 5 positions, but the location-based alignment was built for up to 4: build it with"
    with pytest.raises(ValueError, match=message):
        alignment.prepare(x, x)
    with pytest.raises(ValueError, match=message):
        alignment(x, Candidates(x, x))


def test_a_deep_alignment_without_an_inner_layer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^the depth of a deep alignment must be at least 2, but is 1$"):
        make_alignment("deep", 3, 3, 1, depth=1)


def test_areas_without_a_key_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^the largest area must have at least 1 key, but has 0$"):
        make_alignment("area", 3, 3, 1, largest=0)
