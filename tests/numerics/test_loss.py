"""The chunked loss equals its definitions: PyTorch's, and a divergence plus an entropy; values and gradients."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import heedful.nn.loss
from heedful.nn.loss import reference, smoothed_cross_entropy
from heedful.packed import IGNORED

ROWS, WIDTH, WORDS = 11, 5, 7
SMOOTHINGS = [0.0, 0.1]

Loss = Callable[[Tensor, Tensor, Tensor | None, Tensor, float], tuple[Tensor, Tensor]]


@pytest.fixture(params=[1, 3, 1000], ids=lambda rows: f"{rows} rows a chunk", autouse=True)
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Every law holds for one row a chunk, for a last chunk that is not full, and for a single chunk."""
    rows = int(request.param)
    monkeypatch.setattr(heedful.nn.loss, "_CHUNK_BYTES", rows * WORDS * 4)
    return rows


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_values_and_gradients_equal_torchs_cross_entropy(smoothing: float, biased: bool) -> None:
    x, weight, bias, labels = batch(biased)
    found = everything(smoothed_cross_entropy, x, weight, bias, labels, smoothing)
    expected = everything(reference, x, weight, bias, labels, smoothing)
    for tensor, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(tensor, wanted, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("loss", [smoothed_cross_entropy, reference])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_the_loss_is_the_divergence_from_the_smoothed_labels_plus_their_entropy(loss: Loss, smoothing: float) -> None:
    """H(q, p) = KL(q || p) + H(q), summed in Python over tokens and words; only labels that count."""
    x, weight, bias, labels = batch()
    assert bias is not None
    total = likelihood = 0.0
    for row, label in zip((x @ weight.T + bias).tolist(), labels.tolist(), strict=True):
        if label == IGNORED:
            continue
        normaliser = sum(math.exp(score) for score in row)
        p = [math.exp(score) / normaliser for score in row]
        q = [(1 - smoothing) * (word == label) + smoothing / WORDS for word in range(WORDS)]
        divergence = sum(q_v * math.log(q_v / p_v) for q_v, p_v in zip(q, p, strict=True) if q_v)
        entropy = -sum(q_v * math.log(q_v) for q_v in q if q_v)
        total += divergence + entropy
        likelihood -= math.log(p[label])
    found, found_likelihood = loss(x, weight, bias, labels, smoothing)
    assert float(found.detach()) == pytest.approx(total, abs=1e-11)
    assert float(found_likelihood) == pytest.approx(likelihood, abs=1e-11)


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_gradients_are_those_of_finite_differences(smoothing: float, biased: bool) -> None:
    x, weight, bias, labels = batch(biased)
    inputs = (x, weight) if bias is None else (x, weight, bias)

    def loss(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return smoothed_cross_entropy(x, weight, bias, labels, smoothing)[0]

    assert torch.autograd.gradcheck(loss, inputs, atol=1e-7, rtol=1e-6)


def test_ignored_labels_count_in_nothing() -> None:
    x, weight, bias, labels = batch()
    counted = labels != IGNORED
    assert 0 < counted.sum() < ROWS
    _, likelihood, dx, dw, db = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1)
    assert (dx[~counted] == 0).all()
    fewer = everything(smoothed_cross_entropy, x[counted].detach(), weight, bias, labels[counted], 0.1)
    torch.testing.assert_close(likelihood, fewer[1], atol=1e-12, rtol=0)
    for tensor, wanted in zip((dx[counted], dw, db), fewer[2:], strict=True):
        torch.testing.assert_close(tensor, wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize("rows", [0, 4])
def test_nothing_to_count_is_a_loss_of_zero(rows: int) -> None:
    x, weight, bias, _ = batch()
    labels = torch.full((rows,), IGNORED)
    for tensor in everything(smoothed_cross_entropy, x[:rows].detach(), weight, bias, labels, 0.1):
        assert (tensor == 0).all()


@pytest.mark.parametrize("factor", [0.0, 1.0, 0.25, -3.0])
def test_a_factor_behind_the_loss_scales_every_gradient(factor: float) -> None:
    x, weight, bias, labels = batch()
    plain = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1)
    scaled = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1, factor)
    for tensor, wanted in zip(scaled[2:], plain[2:], strict=True):
        torch.testing.assert_close(tensor, factor * wanted, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_second_and_third_backward_pass_add_the_same_gradients_again(factor: float) -> None:
    """Gradients come from the forward pass: what `.grad` accumulates must not be the memory they lie in."""
    x, weight, bias, labels = batch()
    expected = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1, factor)[2:]
    loss, _ = smoothed_cross_entropy(x, weight, bias, labels, 0.1)
    for times in (1, 2, 3):
        (factor * loss).backward(retain_graph=True)
        for parameter, wanted in zip((x, weight, bias), expected, strict=True):
            assert parameter is not None
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, times * wanted, atol=1e-12, rtol=1e-12)


@given(cut=st.integers(1, ROWS - 1), smoothing=st.sampled_from(SMOOTHINGS))
@settings(max_examples=8)
def test_two_halves_accumulate_to_the_whole(cut: int, smoothing: float) -> None:
    x, weight, bias, labels = batch()
    whole = everything(smoothed_cross_entropy, x, weight, bias, labels, smoothing)
    halves = [
        everything(smoothed_cross_entropy, x[part].detach(), weight, bias, labels[part], smoothing)
        for part in (slice(None, cut), slice(cut, None))
    ]
    torch.testing.assert_close(torch.cat([half[2] for half in halves]), whole[2], atol=1e-12, rtol=0)
    for place in (0, 1, 3, 4):
        torch.testing.assert_close(halves[0][place] + halves[1][place], whole[place], atol=1e-12, rtol=0)


def test_no_gradients_are_computed_where_none_are_wanted() -> None:
    x, weight, bias, labels = batch()
    with torch.no_grad(), FlopCounterMode(display=False) as work:
        loss, likelihood = smoothed_cross_entropy(x, weight, bias, labels, 0.1)
    assert work.get_total_flops() == 2 * ROWS * WIDTH * WORDS  # the scores, and no other product
    wanted, wanted_likelihood = smoothed_cross_entropy(x, weight, bias, labels, 0.1)
    assert not loss.requires_grad
    assert wanted.requires_grad
    assert not wanted_likelihood.requires_grad
    assert torch.equal(loss, wanted.detach())
    assert torch.equal(likelihood, wanted_likelihood)


def test_a_frozen_output_layer_still_teaches_what_lies_before_it() -> None:
    x, weight, bias, labels = batch()
    assert bias is not None
    expected = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1)[2]
    loss, _ = smoothed_cross_entropy(x, weight.detach(), bias.detach(), labels, 0.1)
    torch.testing.assert_close(torch.autograd.grad(loss, x)[0], expected, atol=1e-12, rtol=0)


def test_float32_is_within_1e_5_of_float64() -> None:
    x, weight, bias, labels = batch()
    assert bias is not None
    exact = everything(smoothed_cross_entropy, x, weight, bias, labels, 0.1)
    single_x, single_weight, single_bias = narrowed(torch.float32, x, weight, bias)
    narrow = everything(smoothed_cross_entropy, single_x, single_weight, single_bias, labels, 0.1)
    for tensor, wanted in zip(narrow, exact, strict=True):
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor.double(), wanted, atol=1e-5, rtol=1e-5)


def test_bfloat16_states_with_float32_weights_are_within_bfloat16_of_float64() -> None:
    """Scores round to 8 bits (2^-9 of at most about 8), so the loss of a token may be 0.02 off, gradients 0.03."""
    x, weight, bias, labels = batch()
    assert bias is not None
    rounded = x.detach().bfloat16()
    exact = everything(smoothed_cross_entropy, rounded.double(), weight, bias, labels, 0.1)
    _, single_weight, single_bias = narrowed(torch.float32, x, weight, bias)
    found = everything(smoothed_cross_entropy, rounded, single_weight, single_bias, labels, 0.1)
    assert [tensor.dtype for tensor in found] == [torch.float32, torch.float32, torch.bfloat16, *2 * [torch.float32]]
    counted = int((labels != IGNORED).sum())
    for tensor, wanted in zip(found[:2], exact[:2], strict=True):
        assert abs(float(tensor) - float(wanted)) < 0.02 * counted
    for tensor, wanted in zip(found[2:], exact[2:], strict=True):
        assert float((tensor.double() - wanted).abs().max()) < 0.03 * max(1.0, float(wanted.abs().max()))


def batch(biased: bool = True) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """States, weights, perhaps a bias, and labels of which some are ignored."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    weight = torch.randn(WORDS, WIDTH, generator=generator, dtype=torch.float64)
    bias = torch.randn(WORDS, generator=generator, dtype=torch.float64)
    labels = torch.randint(WORDS, (ROWS,), generator=generator)
    labels[[0, 4, 5, ROWS - 1]] = IGNORED
    return x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_() if biased else None, labels


def narrowed(dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.detach().to(dtype).requires_grad_() for tensor in tensors)


def everything(
    loss: Loss, x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, factor: float = 1.0
) -> list[Tensor]:
    """The loss, the likelihood, and the gradients of the states, the weights and the bias."""
    leaf = x.detach().requires_grad_()
    value, likelihood = loss(leaf, weight, bias, labels, smoothing)
    inputs = [leaf, weight] if bias is None else [leaf, weight, bias]
    return [value.detach(), likelihood, *torch.autograd.grad(factor * value, inputs)]
