"""Properties of single distributions: sigmoids, learned entmax, de-attention and its distances."""

import math
from typing import Final, Literal

import pytest
import torch
from torch import Tensor

import heedful.nn.alignments.distributions
from heedful.nn.alignments.distributions import (
    DISTRIBUTIONS,
    DeAttention,
    Entmax,
    GumbelHard,
    LearnedEntmax,
    Sigmoid,
    l1_distance,
    normalised_sigmoid,
    softmax,
    sparsemax,
)

HEADS = 2


def test_a_sigmoid_weighs_each_key_separately() -> None:
    scores, _ = batch((3, 5))
    other = scores.clone()
    other[:, 1:] += 3
    assert torch.equal(Sigmoid()(scores)[:, 0], Sigmoid()(other)[:, 0])


def test_a_normalised_sigmoid_works_when_all_sigmoids_underflow() -> None:
    weights = normalised_sigmoid(torch.tensor([-1e4, -1e4, -1e4 - 200]))
    torch.testing.assert_close(weights, torch.tensor([0.5, 0.5, 0.0]))


def test_each_head_learns_its_own_alpha() -> None:
    learned = LearnedEntmax(3).double()
    with torch.no_grad():
        learned.a_H.copy_(torch.tensor([-3.0, 0.0, 4.0]))
    scores, seen = batch((2, 3, 4, 5), 2.0)
    weights = learned(scores, seen)
    for head, alpha in enumerate(learned.alpha_H.tolist()):
        assert alpha == pytest.approx(1.01 + 0.99 / (1 + math.exp(-(-3.0, 0.0, 4.0)[head])))
        torch.testing.assert_close(weights[:, head], Entmax(alpha)(scores[:, head], seen[:, head]))


def test_gradients_of_alpha_are_those_of_finite_differences() -> None:
    learned = LearnedEntmax(HEADS).double()
    scores, seen = batch((2, HEADS, 2, 4), 1.0)

    def weights(a: Tensor, x: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(learned, {"a_H": a}, (x, seen))
        return found

    for a in (-2.5, 0.0, 2.0):
        inputs = (torch.full((HEADS,), a, dtype=torch.float64, requires_grad=True), scores.requires_grad_())
        assert torch.autograd.gradcheck(weights, inputs, atol=1e-6)


@pytest.mark.parametrize("a", [-100.0, 100.0])
def test_an_alpha_at_its_bounds_is_still_finite(a: float) -> None:
    learned = LearnedEntmax(HEADS)
    torch.nn.init.constant_(learned.a_H, a)
    scores, seen = batch((3, HEADS, 2, 30), 5.0)
    leaf = scores.float().requires_grad_()
    weights = learned(leaf, seen)
    weights.square().sum().backward()
    assert leaf.grad is not None
    assert learned.a_H.grad is not None
    assert all(tensor.isfinite().all() for tensor in (weights, leaf.grad, learned.a_H.grad))
    expected = softmax(scores, seen) if a < 0 else sparsemax(scores, seen)
    torch.testing.assert_close(weights.double(), expected, atol=0.1 if a < 0 else 1e-5, rtol=0)


@pytest.mark.parametrize("alpha", [1.0, 0.5, math.nan])
def test_an_alpha_of_one_or_less_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match=rf"^entmax has an alpha of {alpha:g}; it must be above 1 \(at 1 it is softm"):
        Entmax(alpha)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_a_temperature_that_is_not_positive_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match=rf"^hard attention has a temperature of {temperature:g}; it must be above 0$"):
        GumbelHard(softmax, temperature)


Gate = Literal["centred", "doubled", "plain"]
GATES: Final[tuple[Gate, ...]] = ("centred", "doubled", "plain")


@pytest.mark.parametrize("gate", GATES)
def test_de_attention_equals_a_loop_over_queries_and_keys(gate: Gate) -> None:
    scores, seen = batch((2, 3, 4))
    queries, keys = torch.randn(2, 3, 5, dtype=torch.float64), torch.randn(2, 4, 5, dtype=torch.float64)
    weights = DeAttention(0.7, 0.3, gate)(scores, l1_distance(queries, keys), seen)
    assert (weights < 0).any()
    for sentence in range(2):
        for query in range(3):
            visible = [key for key in range(4) if seen[sentence, query, key]]
            far = {
                key: -sum(abs(float(queries[sentence, query, e] - keys[sentence, key, e])) for e in range(5))
                for key in visible
            }
            for key in range(4):
                expected = 0.0
                if key in visible:
                    middle = sum(far.values()) / len(far) if gate == "centred" else 0.0
                    share = (2 if gate == "doubled" else 1) / (1 + math.exp(-0.3 * (far[key] - middle)))
                    expected = math.tanh(0.7 * scores[sentence, query, key]) * share
                assert float(weights[sentence, query, key]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("gate", GATES[:2])
def test_de_attention_stays_between_minus_one_and_one(gate: Gate) -> None:
    scores, seen = batch((4, 3, 6), 1e4)
    distance = -torch.rand_like(scores) * 1e4
    weights = DeAttention(gate=gate)(scores, distance, seen)
    assert weights.abs().max() <= 1
    assert DeAttention(gate=gate)(scores, 0 * distance).abs().max() == (0.5 if gate == "centred" else 1)


@pytest.mark.parametrize("gate", GATES[:2])
def test_gradients_of_de_attention_are_those_of_finite_differences(gate: Gate) -> None:
    scores, seen = batch((1, 2, 4))
    distance = -torch.rand_like(scores)
    weigh = DeAttention(0.7, 1.3, gate)
    inputs = (scores.requires_grad_(), distance.requires_grad_())
    assert torch.autograd.gradcheck(lambda x, n: weigh(x, n, seen), inputs)


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_distances_and_their_gradients_equal_the_definition_in_chunks_of_any_size(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = torch.randn(2, 3, 5, 4, dtype=torch.float64, requires_grad=True)
    keys = torch.randn(2, 3, 6, 4, dtype=torch.float64, requires_grad=True)
    monkeypatch.setattr(heedful.nn.alignments.distributions, "_CHUNK_BYTES", rows * keys.numel() * 8)
    found = l1_distance(queries, keys)
    expected = -(queries.unsqueeze(3) - keys.unsqueeze(2)).abs().sum(-1)
    torch.testing.assert_close(found, expected)
    upstream = torch.randn_like(found)
    for gradient, wanted in zip(
        torch.autograd.grad(found, (queries, keys), upstream),
        torch.autograd.grad(expected, (queries, keys), upstream),
        strict=True,
    ):
        torch.testing.assert_close(gradient, wanted)


def test_distances_of_sixteen_bits_are_float32_and_of_nothing_are_none() -> None:
    queries, keys = torch.randn(3, 300).bfloat16(), torch.randn(4, 300).bfloat16()
    found = l1_distance(queries, keys)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, l1_distance(queries.float(), keys.float()))
    assert l1_distance(queries[:0], keys).shape == (0, 4)
    assert l1_distance(queries, keys[:0]).shape == (3, 0)


# --- the table --------------------------------------------------------------------------------------------------------


def test_the_table_states_the_properties_of_each_kind() -> None:
    scores, _ = batch((2, HEADS, 3, 6))
    options: dict[str, dict[str, float]] = {"learned_entmax": {"heads": HEADS}, "entmax": {"alpha": 1.7}}
    for name, kind in DISTRIBUTIONS.items():
        made = kind.make(**options.get(name, {}))
        extra = (-torch.rand_like(scores),) if kind.needs_distance else ()
        weights = made(scores, *extra)
        sums_to_one = torch.allclose(weights.sum(-1), torch.ones(()).double()) and bool((weights >= 0).all())
        assert sums_to_one == kind.normalised, name
        fused = torch.allclose(weights, scores.softmax(-1))
        assert fused == kind.fused, name
    assert [name for name, kind in DISTRIBUTIONS.items() if kind.needs_distance] == ["de_attention"]


def batch(shape: tuple[int, ...], scale: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Scores, and what is seen: about two keys of three, and nothing in the last row."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
    seen = torch.rand(shape, generator=generator) < 0.67
    seen.view(-1, shape[-1])[-1] = False
    return scores, seen
