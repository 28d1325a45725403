"""Pools of packed sentences equal their definitions, written as loops over sentences, tokens and features."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.shared.examples import examples
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.layers.pooling import POOLS, AttentionPool, MaxPool, MultiDimensionalPool, Pool

WIDTH = 3
LENGTHS = [4, 0, 1, 6, 0]
every_pool = pytest.mark.parametrize("name", POOLS)


def pool_of(name: str) -> Pool:
    torch.manual_seed(1)
    return POOLS[name](WIDTH).double()


def values(lengths: list[int]) -> Tensor:
    return torch.randn(sum(lengths), WIDTH, dtype=torch.float64)


# --- definitions ------------------------------------------------------------------------------------------------------


def weighted(scores: list[float], numbers: list[float]) -> float:
    """sum_i softmax(scores)_i * number_i"""
    powers = [math.exp(score) for score in scores]
    return sum(power / sum(powers) * number for power, number in zip(powers, numbers, strict=True))


def affine(linear: nn.Linear, x: list[float]) -> list[float]:
    biases = [0.0] * linear.out_features if linear.bias is None else linear.bias.tolist()
    return [
        sum(w * number for w, number in zip(row, x, strict=True)) + bias
        for row, bias in zip(linear.weight.tolist(), biases, strict=True)
    ]


def attended(pool: Pool, tokens: list[list[float]]) -> list[float]:
    assert isinstance(pool, AttentionPool)
    scores = [affine(pool.context, [math.tanh(u) for u in affine(pool.inner, token)])[0] for token in tokens]
    return [weighted(scores, [token[feature] for token in tokens]) for feature in range(WIDTH)]


def attended_by_feature(pool: Pool, tokens: list[list[float]]) -> list[float]:
    assert isinstance(pool, MultiDimensionalPool)
    hidden = [[h if h > 0 else math.exp(h) - 1 for h in affine(pool.inner, token)] for token in tokens]
    scores = [affine(pool.out, row) for row in hidden]
    return [
        weighted([row[feature] for row in scores], [token[feature] for token in tokens]) for feature in range(WIDTH)
    ]


DEFINITIONS: dict[str, Callable[[Pool, list[list[float]]], list[float]]] = {
    "mean": lambda pool, tokens: [sum(column) / len(tokens) for column in zip(*tokens, strict=True)],
    "max": lambda pool, tokens: [max(column) for column in zip(*tokens, strict=True)],
    "first": lambda pool, tokens: tokens[0],
    "last": lambda pool, tokens: tokens[-1],
    "attention": attended,
    "multi_dimensional": attended_by_feature,
}


@every_pool
@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=6), spare=st.integers(0, 2))
@example(lengths=LENGTHS, spare=3)
@example(lengths=[0, 0], spare=0)
@examples(20)
@torch.no_grad()
def test_a_pool_equals_its_definition_and_nothing_is_zeros(name: str, lengths: list[int], spare: int) -> None:
    pool, x, layout = pool_of(name), values(lengths), Layout.of(lengths)
    found = pool(x, replace(layout, bound=layout.bound + spare))
    assert found.shape == (len(lengths), WIDTH)
    for row, tokens in zip(found.tolist(), x.split(lengths), strict=True):
        expected = DEFINITIONS[name](pool, tokens.tolist()) if len(tokens) else [0.0] * WIDTH
        assert row == pytest.approx(expected, abs=1e-12)


def test_attention_may_be_narrower_inside() -> None:
    assert AttentionPool(WIDTH).inner.out_features == WIDTH
    pool = AttentionPool(WIDTH, inner=2).double()
    tokens = values([4])
    assert pool(tokens, Layout.of([4])).tolist()[0] == pytest.approx(attended(pool, tokens.tolist()))


# --- laws of all ------------------------------------------------------------------------------------------------------


@every_pool
def test_a_pool_is_the_sum_of_its_weights_which_sum_to_one(name: str) -> None:
    pool, x = pool_of(name), values(LENGTHS)
    x[1] = x[0]  # equal values share a maximum
    weights = pool.weights(x, Layout.of(LENGTHS))
    assert weights.shape in ((len(x), 1), (len(x), WIDTH))
    assert (weights >= 0).all()
    found = pool(x, Layout.of(LENGTHS))
    for row, tokens, shares in zip(found, x.split(LENGTHS), weights.split(LENGTHS), strict=True):
        torch.testing.assert_close((shares * tokens).sum(0), row)
        assert shares.sum(0).tolist() == pytest.approx([float(len(tokens) > 0)] * weights.shape[1])


@every_pool
@pytest.mark.parametrize("lengths", [LENGTHS, [1], [0, 3], [0, 0]])
def test_gradients_are_those_of_finite_differences(name: str, lengths: list[int]) -> None:
    pool, layout = pool_of(name), Layout.of(lengths)
    x = values(lengths).requires_grad_()

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        named = dict(zip(dict(pool.named_parameters()), weights, strict=True))
        pooled: Tensor = torch.func.functional_call(pool, named, (x, layout))
        return pooled

    assert torch.autograd.gradcheck(run, (x, *(weight.detach().requires_grad_() for weight in pool.parameters())))


@pytest.mark.parametrize("gradient", [1.0, -1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_gradient_of_a_shared_maximum_is_shared(gradient: float, dtype: torch.dtype) -> None:
    x = torch.tensor([[2.0], [5.0], [5.0], [1.0]], requires_grad=True, dtype=dtype)
    layout = Layout.of([3, 1])
    (gradient * MaxPool()(x, layout)).sum().backward()
    assert x.grad is not None
    assert (gradient * x.grad).tolist() == [[0], [0.5], [0.5], [1]] == MaxPool().weights(x, layout).tolist()


@every_pool
@pytest.mark.parametrize("poison", [math.nan, math.inf, 1e30])
def test_a_neighbour_in_the_batch_cannot_change_a_vector_or_its_gradient(name: str, poison: float) -> None:
    pool, layout = pool_of(name), Layout.of(LENGTHS)
    clean = values(LENGTHS)
    changed = clean.clone()
    changed[4] = poison  # the only token of the third sentence
    vectors, gradients = [], []
    for x in (clean.requires_grad_(), changed.requires_grad_()):
        found = pool(x, layout)[[0, 1, 3, 4]]
        vectors.append(found.detach())
        gradients.append(torch.autograd.grad(found.square().sum(), x)[0])
    assert torch.equal(*vectors)
    others = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert torch.equal(gradients[0][others], gradients[1][others])
    assert (gradients[0][4] == 0).all()


@every_pool
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits_are_summed_in_float32(name: str, dtype: torch.dtype) -> None:
    """A long sum in 16 bits would stand still: 1 is not seen beside 256 in bfloat16."""
    pool, layout = pool_of(name).float(), Layout.of([2000, 3])
    x = (1 + torch.randn(2003, WIDTH) / 8).to(dtype)
    found, expected = pool(x, layout), pool(x.float(), layout)
    assert found.dtype == dtype
    assert pool.weights(x, layout).dtype == torch.float32
    torch.testing.assert_close(found.float(), expected, atol=0, rtol=1e-2)


def test_scores_of_any_size_have_weights() -> None:
    pool = pool_of("attention")
    assert isinstance(pool, AttentionPool)
    nn.init.constant_(pool.context.weight, 1e4)
    x = torch.tensor([[-9.0] * WIDTH, [9.0] * WIDTH, [-9.0] * WIDTH], dtype=torch.float64)
    nn.init.eye_(pool.inner.weight)
    assert pool.weights(x, Layout.of([2, 1])).flatten().tolist() == [0, 1, 1]
