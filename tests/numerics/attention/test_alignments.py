"""Alignments: scores and gradients equal their equations, and names and errors are those of the table."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.numerics.attention.alignment_equations import (
    BATCH,
    CASES,
    EACH,
    HEADS,
    QUERIES,
    areas,
    close,
    drawn,
    made,
)
from tests.shared.refusals import Refusal, each, refuses
from torch import Tensor, nn
from torch.func import functional_call

from heedful.nn.alignments.base import Alignment, Candidates
from heedful.nn.alignments.table import ALIGNMENTS, make_alignment

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


def test_zero_vectors_have_a_score_and_a_bounded_gradient() -> None:
    alignment = make_alignment("content", 3, 3, 1)
    nothing, something = torch.zeros(1, 1, 2, 3, requires_grad=True), torch.randn(1, 1, 2, 3)
    for q, k in ((nothing, something), (something, nothing), (nothing, nothing)):
        scores = alignment(q, alignment.prepare(k, k))
        assert (scores == 0).all()
        assert (torch.autograd.grad(scores.sum(), nothing)[0].abs() < 1e7).all()


# --- the table and its errors -----------------------------------------------------------------------------------------


def test_the_table_has_the_eleven_functions_and_all_are_tested() -> None:
    assert len(ALIGNMENTS) == 11
    assert {name for name, *_ in CASES.values()} == set(ALIGNMENTS)


@pytest.mark.parametrize("name", ALIGNMENTS)
def test_widths_may_differ_exactly_if_the_class_allows_it(name: str) -> None:
    options = {"max_length": 4} if ALIGNMENTS[name].fixed_length else {}
    if ALIGNMENTS[name].equal_widths:
        with refuses("...must be equal, but are 3 and 2 (General accepts any widths)", ValueError):
            make_alignment(name, 3, 2, 1, **options)
    else:
        alignment = make_alignment(name, 3, 2, 1, **options)
        q, k = torch.randn(1, 1, 5, 3), torch.randn(1, 1, 4, 2)
        assert alignment(q, alignment.prepare(k, k)).shape == (1, 1, 5, 4)


REFUSALS = [
    Refusal(
        "an unknown name",
        lambda: make_alignment("dots", 3, 3, 1),
        "there is no alignment `dots`: it must be one of content, dot, ..., area",
        error=ValueError,
    ),
    Refusal(
        "a deep alignment without an inner layer",
        lambda: make_alignment("deep", 3, 3, 1, depth=1),
        "the depth of a deep alignment must be at least 2, but is 1",
        error=ValueError,
    ),
    Refusal(
        "areas without a key",
        lambda: make_alignment("area", 3, 3, 1, largest=0),
        "the largest area must have at least 1 key, but has 0",
        error=ValueError,
    ),
]


@each(REFUSALS)
def test_alignments_that_cannot_be_are_refused(refusal: Refusal) -> None:
    refusal.check()


def test_a_memory_with_more_places_than_the_location_matrix_is_refused() -> None:
    alignment = make_alignment("location", 3, 3, 1, max_length=4)
    x = torch.randn(1, 1, 5, 3)
    message = r"^the memory has 5 positions, but the location-based alignment was built for up to 4: build it with"
    with pytest.raises(ValueError, match=message):
        alignment.prepare(x, x)
    with pytest.raises(ValueError, match=message):
        alignment(x, Candidates(x, x))
