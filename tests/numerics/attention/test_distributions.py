"""Distributions equal their definitions, and obey the laws of all distributions."""

import math
from collections.abc import Callable
from itertools import chain, combinations

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.shared.examples import examples
from tests.shared.refusals import refuses
from torch import Tensor

from heedful.nn.alignments.distributions import (
    DeAttention,
    Distribution,
    Entmax,
    LearnedEntmax,
    Sigmoid,
    entmax15,
    normalised_sigmoid,
    softmax,
    sparsemax,
)

HEADS = 2

NORMALISED: dict[str, Distribution] = {
    "softmax": softmax,
    "normalised_sigmoid": normalised_sigmoid,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "entmax 1.2": Entmax(1.2),
    "entmax 3": Entmax(3.0),
    "learned_entmax": LearnedEntmax(HEADS),
}
# Gates of de-attention with scores for distances: to see what they do with masks, types and nothing at all.
ALL: dict[str, Distribution] = NORMALISED | {
    "sigmoid": Sigmoid(),
    "sigmoid with a bias": Sigmoid(-1.5),
    "de_attention": lambda scores_XL, seen_XL=None: DeAttention()(scores_XL, -scores_XL.abs(), seen_XL),
    "de_attention, not centred": lambda scores_XL, seen_XL=None: DeAttention(gate="doubled")(
        scores_XL, -scores_XL.abs(), seen_XL
    ),
}
SPARSE = {"sparsemax": 2.0, "entmax15": 1.5, "entmax 1.2": 1.2, "entmax 3": 3.0, "learned_entmax": 1.505}
every = pytest.mark.parametrize("distribution", ALL.values(), ids=ALL)
every_normalised = pytest.mark.parametrize("distribution", NORMALISED.values(), ids=NORMALISED)
Row = list[float]


def naive_softmax(x: Row) -> Row:
    total = sum(math.exp(score) for score in x)
    return [math.exp(score) / total for score in x]


def naive_sigmoid(x: Row, bias: float = 0.0) -> Row:
    return [1 / (1 + math.exp(-score - bias)) for score in x]


def naive_normalised_sigmoid(x: Row) -> Row:
    gates = naive_sigmoid(x)
    return [gate / sum(gates) for gate in gates]


def supports(size: int) -> chain[tuple[int, ...]]:
    return chain.from_iterable(combinations(range(size), count) for count in range(1, size + 1))


def sparsemax_by_support(x: Row) -> Row:
    """The one support set whose threshold is below its own scores and not below the others."""
    for support in supports(len(x)):
        threshold = (sum(x[key] for key in support) - 1) / len(support)
        if all((score > threshold) == (key in support) for key, score in enumerate(x)):
            return [max(score - threshold, 0.0) for score in x]
    raise AssertionError("no support set")


def entmax15_by_support(x: Row) -> Row:
    """The same with sum over the support of (x / 2 - t)^2 = 1, a quadratic equation for t."""
    for support in supports(len(x)):
        linear, square = sum(x[key] / 2 for key in support), sum((x[key] / 2) ** 2 for key in support)
        discriminant = linear**2 - len(support) * (square - 1)
        if discriminant < 0:
            continue
        threshold = (linear - math.sqrt(discriminant)) / len(support)
        if all((score / 2 > threshold) == (key in support) for key, score in enumerate(x)):
            return [max(score / 2 - threshold, 0.0) ** 2 for score in x]
    raise AssertionError("no support set")


def entmax_by_bisection(x: Row, alpha: float) -> Row:
    """The threshold by halving an interval that is surely wide enough, 200 times."""

    def weights(threshold: float) -> Row:
        return [max((alpha - 1) * score - threshold, 0.0) ** (1 / (alpha - 1)) for score in x]

    low, high = (alpha - 1) * min(x) - 2, (alpha - 1) * max(x)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(weights(middle)) > 1 else (low, middle)
    return weights(low)


DEFINITIONS: list[tuple[str, Distribution, Callable[[Row], Row]]] = [
    ("softmax", softmax, naive_softmax),
    ("sigmoid", Sigmoid(), naive_sigmoid),
    ("sigmoid with a bias", Sigmoid(-1.5), lambda x: naive_sigmoid(x, -1.5)),
    ("normalised_sigmoid", normalised_sigmoid, naive_normalised_sigmoid),
    ("sparsemax", sparsemax, sparsemax_by_support),
    ("entmax15", entmax15, entmax15_by_support),
    *(
        (f"entmax {alpha}", Entmax(alpha), lambda x, alpha=alpha: entmax_by_bisection(x, alpha))
        for alpha in (1.05, 1.3, 1.5, 1.9, 2.0, 2.5, 4.0)
    ),
]


@pytest.mark.parametrize(
    ("distribution", "definition"), [row[1:] for row in DEFINITIONS], ids=[row[0] for row in DEFINITIONS]
)
@given(keys=st.integers(1, 6), scale=st.sampled_from([0.1, 1.0, 4.0]), seed=st.integers(0, 2**16))
@example(keys=1, scale=1.0, seed=0)
@examples(15)
def test_weights_equal_their_definition_over_what_is_seen(
    distribution: Distribution, definition: Callable[[Row], Row], keys: int, scale: float, seed: int
) -> None:
    scores, seen = batch((2, 3, keys), scale, seed)
    found = distribution(scores, seen)
    assert found.dtype == torch.float64
    for row, mask, weights in zip(scores.view(-1, keys), seen.view(-1, keys), found.view(-1, keys), strict=True):
        expected = definition(row[mask].tolist()) if mask.any() else []
        torch.testing.assert_close(weights[mask].tolist(), expected, atol=1e-9, rtol=0)
        assert (weights[~mask] == 0).all()


@pytest.mark.parametrize(("name", "alpha"), SPARSE.items(), ids=SPARSE)
def test_no_other_point_of_the_simplex_has_a_greater_value_plus_entropy(name: str, alpha: float) -> None:
    scores, _ = batch((50, HEADS, 1, 5), 1.5)

    def value(p: Tensor) -> Tensor:
        return (p * scores).sum(-1) + (p - p**alpha).sum(-1) / (alpha * (alpha - 1))

    best = NORMALISED[name](scores)
    for other in (torch.rand_like(scores), torch.rand_like(scores) ** 8, best + 1e-3 * torch.rand_like(best)):
        assert (value(other / other.sum(-1, keepdim=True)) <= value(best) + 1e-12).all()


def test_bisection_and_sorting_agree_and_small_alphas_approach_softmax() -> None:
    scores, seen = batch((2000, 7), 2.0)  # of which some have a key that is almost in the support
    torch.testing.assert_close(Entmax(2.0)(scores, seen), sparsemax(scores, seen), atol=1e-12, rtol=0)
    torch.testing.assert_close(Entmax(1.5)(scores, seen), entmax15(scores, seen), atol=1e-12, rtol=0)
    far, near = ((Entmax(alpha)(scores, seen) - softmax(scores, seen)).abs().max() for alpha in (1.01, 1.0001))
    assert near < 1e-3
    assert near < far / 50


@every
def test_gradients_are_those_of_finite_differences(distribution: Distribution) -> None:
    scores, seen = batch((2, HEADS, 2, 4), 1.0)
    assert torch.autograd.gradcheck(lambda x: distribution(x, seen), scores.requires_grad_())
    assert torch.autograd.gradcheck(distribution, scores[:1].detach().requires_grad_())


@pytest.mark.parametrize("distribution", [sparsemax, entmax15, Entmax(1.3)])
def test_second_derivatives_of_sparse_weights_are_refused_not_wrong(distribution: Distribution) -> None:
    scores = torch.randn(3, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(distribution(scores).square().sum(), scores, create_graph=True)
    with refuses("...once_differentiable...", RuntimeError):
        gradient.sum().backward()


# --- laws of all ------------------------------------------------------------------------------------------------------


@every_normalised
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_normalised_weights_are_not_negative_and_sum_to_one(distribution: Distribution, dtype: torch.dtype) -> None:
    scores, seen = batch((5, HEADS, 3, 9), 3.0)
    weights = distribution(scores.to(dtype), seen)
    assert weights.dtype == dtype
    assert (weights >= 0).all()
    sums = weights.double().sum(-1)
    torch.testing.assert_close(sums, seen.any(-1).double(), atol=8 * torch.finfo(dtype).eps, rtol=0)


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits_are_computed_in_float32_and_rounded_once(distribution: Distribution, dtype: torch.dtype) -> None:
    scores, seen = batch((5, HEADS, 3, 9), 3.0)
    narrow = scores.to(dtype)
    wide = narrow.float().requires_grad_()
    narrow.requires_grad_()
    weights, expected = distribution(narrow, seen), distribution(wide, seen)
    torch.testing.assert_close(weights, expected.to(dtype), atol=0, rtol=0)
    weights.backward(torch.ones_like(weights).cumsum(-1))
    expected.backward(torch.ones_like(expected).cumsum(-1))
    assert narrow.grad is not None
    assert wide.grad is not None
    bits = torch.finfo(dtype).eps  # the gradients of scores and distances meet in the narrow type
    torch.testing.assert_close(narrow.grad.float(), wide.grad, atol=2 * bits, rtol=2 * bits)


@every
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf, 1e30])
def test_hidden_keys_have_no_weight_and_no_effect(distribution: Distribution, poison: float) -> None:
    scores, seen = batch((4, HEADS, 3, 6), 2.0)
    assert not seen.any(-1).all()  # some rows see nothing
    results = []
    for hidden in (scores, scores.masked_fill(~seen, poison)):
        leaf = hidden.float().requires_grad_()
        with torch.autograd.set_detect_anomaly(True):  # not a single NaN on the way back either
            weights = distribution(leaf, seen)
            weights.backward(torch.ones_like(weights).cumsum(-1))
        assert leaf.grad is not None
        assert (weights[~seen] == 0).all()
        assert (leaf.grad[~seen] == 0).all()
        results.append((weights, leaf.grad))
    for clean, poisoned in zip(*results, strict=True):
        assert torch.equal(clean, poisoned)
        assert clean.isfinite().all()


@every
def test_a_mask_of_keys_serves_all_heads_and_queries(distribution: Distribution) -> None:
    scores, _ = batch((3, HEADS, 4, 5))
    keep = torch.tensor([[True] * 5, [True, True, False, True, False], [False] * 5])[:, None, None]
    whole = keep.expand(scores.shape)
    assert torch.equal(distribution(scores, keep), distribution(scores, whole))
    assert torch.equal(distribution(scores, keep[0, 0, 0]), distribution(scores))


@every
def test_rows_are_independent(distribution: Distribution) -> None:
    scores, seen = batch((3, HEADS, 4, 5))
    weights = distribution(scores, seen)
    alone = torch.stack([distribution(row, mask) for row, mask in zip(scores, seen, strict=True)])
    torch.testing.assert_close(weights, alone, atol=1e-14, rtol=0)


@every
def test_without_keys_there_are_no_weights(distribution: Distribution) -> None:
    scores = torch.zeros(3, HEADS, 2, 0, requires_grad=True)
    weights = distribution(scores, torch.zeros(3, HEADS, 2, 0, dtype=torch.bool))
    assert weights.shape == scores.shape
    assert distribution(torch.zeros(0, HEADS, 2, 4)).shape == (0, HEADS, 2, 4)


@every_normalised
@pytest.mark.parametrize("score", [0.0, 1e4, -1e4])
def test_equal_scores_have_equal_weights_and_one_key_has_them_all(distribution: Distribution, score: float) -> None:
    for keys in (1, 2, 7, 300):
        weights = distribution(torch.full((HEADS, 1, keys), score))
        torch.testing.assert_close(weights, torch.full_like(weights, 1 / keys), atol=1e-6, rtol=0)


@every_normalised
def test_tied_keys_share_and_far_ones_get_nothing(distribution: Distribution) -> None:
    if distribution is normalised_sigmoid:
        return  # bounded: ties at the top share with all that is above zero
    weights = distribution(torch.tensor([1e4, -1e4, 1e4, 0.0, 1e4 - 50]).expand(HEADS, 1, 5))
    expected = torch.tensor([0.5, 0.0, 0.5, 0.0, 0.0]).expand(HEADS, 1, 5)
    torch.testing.assert_close(weights, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_weights_have_exact_zeros_and_zero_gradients_there(name: str) -> None:
    scores = torch.tensor([3.0, 2.99, -60.0, -150.0, 2.97]).repeat(HEADS, 1, 1).requires_grad_()
    weights = NORMALISED[name](scores)
    weights.backward(torch.randn_like(weights))
    assert scores.grad is not None
    for tensor in (weights, scores.grad):
        assert ((tensor == 0) == torch.tensor([False, False, True, True, False])).all()


@every_normalised
@pytest.mark.parametrize("scale", [0.01, 1.0, 5.0])
def test_long_rows_are_as_exact_as_short_ones(distribution: Distribution, scale: float) -> None:
    """Ten thousand keys in float32 against float64: long sums may not make keys of what has no weight."""
    scores, _ = batch((HEADS, 6, 10_000), scale)
    scores = scores.float()
    weights, expected = distribution(scores), distribution(scores.double())
    assert (weights - expected).abs().max() <= 1e-5 * expected.max()
    torch.testing.assert_close(weights.double().sum(-1), torch.ones(HEADS, 6).double(), atol=5e-6, rtol=0)


def batch(shape: tuple[int, ...], scale: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Scores, and what is seen: about two keys of three, and nothing in the last row."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
    seen = torch.rand(shape, generator=generator) < 0.67
    seen.view(-1, shape[-1])[-1] = False
    return scores, seen


@pytest.mark.parametrize("distribution", [softmax, sparsemax, entmax15])
def test_scores_that_are_not_numbers_give_weights_that_are_not_numbers(distribution: Distribution) -> None:
    """As a damaged model has them: no index out of bounds."""
    assert distribution(torch.full((2, 4), math.nan), torch.ones(2, 4, dtype=torch.bool)).isnan().any()
