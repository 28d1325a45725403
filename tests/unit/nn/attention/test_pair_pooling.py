"""The pool of pairs against its definition, text by text."""

import pytest
import torch
from tests.shared.refusals import refuses

from heedful.base.packed import Layout
from heedful.nn.attention.pair_pooling import COATTENTIONS, PairPool

LENGTHS = [3, 1, 2, 5, 4, 4]  # three pairs
WIDTH = 4


def pool_of(name: str) -> PairPool:
    return PairPool(COATTENTIONS[name](WIDTH, WIDTH)).double()


@pytest.mark.parametrize("name", COATTENTIONS)
@torch.no_grad()
def test_a_pair_is_compared_by_what_co_attention_finds_in_its_texts(name: str) -> None:
    pool, states = pool_of(name), torch.randn(sum(LENGTHS), WIDTH, dtype=torch.float64)
    found, texts = pool(states, Layout.of(LENGTHS)), states.split(LENGTHS)
    for number in range(3):
        a, b = texts[2 * number], texts[2 * number + 1]
        ((x,), (y,)) = pool.attention(a[None], torch.ones(1, len(a)).bool(), b[None], torch.ones(1, len(b)).bool())
        torch.testing.assert_close(found[number], torch.cat((x, y, (x - y).abs(), x * y)))


@pytest.mark.parametrize("name", COATTENTIONS)
@torch.no_grad()
def test_weights_stay_with_their_tokens_and_sum_to_one_in_each_text(name: str) -> None:
    pool, states = pool_of(name), torch.randn(sum(LENGTHS), WIDTH, dtype=torch.float64)
    layout = Layout.of(LENGTHS)
    weights = pool.weights(states, layout)
    assert weights.shape == (sum(LENGTHS), 1)
    for values in weights.split(LENGTHS):
        torch.testing.assert_close(values.sum(), torch.ones((), dtype=torch.float64))
    pooled = [(part * x).sum(0) for part, x in zip(weights.split(LENGTHS), states.split(LENGTHS), strict=True)]
    torch.testing.assert_close(pool(states, layout)[:, : 2 * WIDTH], torch.stack(pooled).view(3, -1))


@pytest.mark.parametrize("name", COATTENTIONS)
def test_dummies_after_the_pairs_change_nothing_and_are_finite(name: str) -> None:
    pool, states = pool_of(name), torch.randn(sum(LENGTHS) + 2, WIDTH, dtype=torch.float64, requires_grad=True)
    found = pool(states, Layout.of([*LENGTHS, 2, 0, 0, 0]))
    torch.testing.assert_close(found[:3], pool(states[: sum(LENGTHS)], Layout.of(LENGTHS)))
    assert found.isfinite().all()
    (gradient,) = torch.autograd.grad(found[:3].square().sum(), states)
    assert gradient.isfinite().all()
    assert not gradient[-2:].any()


@pytest.mark.parametrize("name", COATTENTIONS)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    pool, states = pool_of(name), torch.randn(6, WIDTH, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: pool(x, Layout.of([2, 1, 1, 2])), states)


def test_a_text_without_its_partner_is_refused() -> None:
    with refuses("pairs are two texts each, but there are 3 texts", ValueError):
        pool_of("parallel")(torch.randn(3, WIDTH, dtype=torch.float64), Layout.of([1, 1, 1]))
