"""The kernels of skip connections and norms give the values and gradients of their plain references in float64."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.shared.covering import one_in
from tests.shared.examples import examples
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("triton")

from heedful.nn.kernels.residual_norm import (
    layer_norm,
    norm_and_skip,
    norm_of_sum,
    residual_norm,
    residual_norm_backward,
    supports,
)
from heedful.nn.kernels.residual_sum import dropped_sum, residual_sum

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # on the CPU Triton interprets the kernels
EPSILON = 1e-5

rows, widths, shares, seeds = (
    st.integers(1, 20),
    st.integers(4, 130),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 2**16),
)


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape).to(DEVICE, dtype).requires_grad_()


def reference_dropped_sum(x: Tensor, f: Tensor, keep: Tensor, share: float) -> Tensor:
    """z = x + m f / (1 - p)"""
    return x + f * keep / (1 - share)


def reference_layer_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """y = (x - mean(x)) / sqrt(variance(x) + epsilon) w + b"""
    centred = x - x.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True) + epsilon).sqrt() * weight + bias


def reference_norm_of_sum(
    x: Tensor, f: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, epsilon: float, share: float
) -> Tensor:
    """y = layer norm of z, z = x + m f / (1 - p)"""
    return reference_layer_norm(reference_dropped_sum(x, f, keep, share), weight, bias, epsilon)


def keep_mask(seed: Tensor, count: int, width: int, share: float) -> Tensor:
    """True where the kernels keep a value with this seed."""
    return residual_sum(None, torch.ones(count, width, device=seed.device), seed, share) != 0


def kept(seed: int, count: int, width: int, share: float) -> Tensor:
    """What a call drops behind `torch.manual_seed(seed)`; leaves the generator as the call has to find it."""
    torch.manual_seed(seed)
    keep = torch.ones(count, width, dtype=torch.bool, device=DEVICE)
    if share > 0:
        keep = keep_mask(torch.randint(2**62, (1,), device=DEVICE), count, width, share)
    torch.manual_seed(seed)
    return keep


def assert_same_function(
    kernel: Callable[..., Tensor], reference: Callable[..., Tensor], inputs: list[Tensor], tolerance: float = 1e-5
) -> None:
    """Compare values and gradients; the tolerance is on the scale of the largest value where that is above one."""
    wide = [x.detach().double().requires_grad_() for x in inputs]
    y, expected = kernel(*inputs), reference(*wide)
    assert y.dtype == inputs[0].dtype
    slopes = torch.randn_like(y)
    gradients = torch.autograd.grad(y, inputs, slopes)
    wanted = torch.autograd.grad(expected, wide, slopes.double())
    for x, gradient in zip(inputs, gradients, strict=True):
        assert gradient.dtype == x.dtype
    for found, right in zip((y, *gradients), (expected, *wanted), strict=True):
        assert (found.double() - right).abs().max() <= tolerance * max(1.0, right.abs().max().item())


@given(count=rows, width=widths, share=shares, seed=seeds)
@example(count=1, width=4, share=0.3, seed=0)
@example(count=40, width=130, share=0.3, seed=0)  # more blocks than programs of the backward pass
@example(count=6, width=2050, share=0.3, seed=0)  # a row a block
@examples(20)
def test_the_norm_of_a_sum_and_its_gradients_equal_the_reference(
    count: int, width: int, share: float, seed: int
) -> None:
    keep = kept(seed, count, width, share)
    inputs = [drawn(count, width), drawn(count, width), drawn(width), drawn(width)]
    torch.manual_seed(seed)
    assert_same_function(
        lambda x, f, w, b: norm_of_sum(x, f, w, b, EPSILON, share),
        lambda x, f, w, b: reference_norm_of_sum(x, f, keep, w, b, EPSILON, share),
        inputs,
    )


@given(count=rows, width=widths)
@example(count=40, width=130)
@examples(12)
def test_a_norm_and_its_gradients_equal_the_reference(count: int, width: int) -> None:
    assert_same_function(
        lambda x, w, b: layer_norm(x, w, b, EPSILON),
        lambda x, w, b: reference_layer_norm(x, w, b, EPSILON),
        [drawn(count, width), drawn(width), drawn(width)],
    )


@given(count=rows, width=widths)
@examples(8)
def test_a_norm_adds_the_gradient_of_the_skip_connection_around_it(count: int, width: int) -> None:
    def around(norm: Callable[..., tuple[Tensor, Tensor]], x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        y, skip = norm(x, w, b, EPSILON)
        return skip.square() + 3 * y

    assert_same_function(
        lambda *given: around(norm_and_skip, *given),
        lambda *given: around(lambda x, *rest: (reference_layer_norm(x, *rest), x), *given),
        [drawn(count, width), drawn(width), drawn(width)],
    )


def test_a_skip_connection_around_a_norm_that_nothing_reads_has_its_gradient() -> None:
    x, weight = drawn(5, 16), drawn(16)
    _, skip = norm_and_skip(x, weight, None, EPSILON)
    (gradient,) = torch.autograd.grad(skip.sum(), [x])
    assert torch.equal(gradient, torch.ones_like(x))


@given(count=rows, width=widths, share=shares, seed=seeds)
@examples(12)
def test_a_dropped_sum_and_its_gradients_equal_the_reference(count: int, width: int, share: float, seed: int) -> None:
    keep = kept(seed, count, width, share)
    inputs = [drawn(count, width), drawn(count, width)]
    torch.manual_seed(seed)
    assert_same_function(
        lambda x, f: dropped_sum(x, f, share), lambda x, f: reference_dropped_sum(x, f, keep, share), inputs
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.02), (torch.float16, 0.003)])
def test_values_of_half_precision_meet_weights_of_float32(dtype: torch.dtype, tolerance: float) -> None:
    """Two roundings stand in a row: of the sum, and of what comes out."""
    inputs = [drawn(9, 24, dtype=dtype), drawn(9, 24, dtype=dtype), drawn(24), drawn(24)]
    keep = kept(5, 9, 24, 0.3)
    assert_same_function(
        lambda x, f, w, b: norm_of_sum(x, f, w, b, EPSILON, 0.3),
        lambda x, f, w, b: reference_norm_of_sum(x, f, keep, w, b, EPSILON, 0.3),
        inputs,
        tolerance,
    )


def test_rows_far_from_zero_keep_their_digits() -> None:
    """Variance is the mean of squared differences, not a difference of large squares."""
    x = drawn(6, 64) + 1000
    wanted = reference_layer_norm(
        x.double(), torch.ones(64, device=DEVICE).double(), torch.zeros(64, device=DEVICE).double(), EPSILON
    )
    found = layer_norm(x, torch.ones(64, device=DEVICE), torch.zeros(64, device=DEVICE), EPSILON)
    torch.testing.assert_close(found.double(), wanted, atol=1e-3, rtol=0)


def test_tensors_with_gaps_are_taken() -> None:
    x, f = drawn(12, 10).T, drawn(10, 24)[:, ::2]
    weight, bias = drawn(24)[::2], drawn(12)
    found = norm_of_sum(x, f, weight, bias, EPSILON, 0.0)
    found.sum().backward()  # its gradient is one number, repeated with strides of 0
    torch.testing.assert_close(found, reference_layer_norm(x + f, weight, bias, EPSILON))


def test_no_rows_have_no_values_and_weights_no_gradient() -> None:
    x, f, weight, bias = drawn(0, 8), drawn(0, 8), drawn(8), drawn(8)
    y = norm_of_sum(x, f, weight, bias, EPSILON, 0.3) + layer_norm(x, weight, bias, EPSILON) + dropped_sum(x, f, 0.3)
    y.sum().backward()
    assert y.shape == (0, 8)
    assert weight.grad is not None
    assert bias.grad is not None
    assert not weight.grad.any()
    assert not bias.grad.any()


def test_gradients_repeat_bit_for_bit() -> None:
    x, f, weight, bias = drawn(40, 130), drawn(40, 130), drawn(130), drawn(130)
    slopes = torch.randn(40, 130, device=DEVICE)

    def gradients() -> tuple[Tensor, ...]:
        torch.manual_seed(4)
        return torch.autograd.grad(norm_of_sum(x, f, weight, bias, EPSILON, 0.3), [x, f, weight, bias], slopes)

    for first, second in zip(gradients(), gradients(), strict=True):
        assert torch.equal(first, second)


class Allocations(TorchDispatchMode):
    """Counts the values of new tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.values = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.new_empty.default:
            self.values += made.numel()
        return made


def test_without_gradients_nothing_is_saved_and_the_values_are_the_same() -> None:
    x, f, weight, bias = drawn(5, 12), drawn(5, 12), drawn(12), drawn(12)
    torch.manual_seed(2)
    learning = norm_of_sum(x, f, weight, bias, EPSILON, 0.3)
    torch.manual_seed(2)
    with torch.no_grad(), Allocations() as allocations:
        found = norm_of_sum(x, f, weight, bias, EPSILON, 0.3)
    assert allocations.values == found.numel()
    torch.testing.assert_close(found, learning, atol=1e-6, rtol=1e-6)


def test_where_nothing_is_dropped_nothing_is_drawn() -> None:
    x, f, weight, bias = drawn(5, 12), drawn(5, 12), drawn(12), drawn(12)
    torch.manual_seed(2)
    expected = torch.rand(3, device=DEVICE)
    torch.manual_seed(2)
    norm_of_sum(x, f, weight, bias, EPSILON, 0.0)
    dropped_sum(x, f, 0.0)
    assert torch.equal(torch.rand(3, device=DEVICE), expected)


# --- what is dropped --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", one_in(3, [0.3, 0.1, 0.5]))
def test_a_mask_keeps_its_share_in_every_column_and_row(share: float) -> None:
    keep = keep_mask(torch.tensor([2**61 + 12345], device=DEVICE), 768, 64, share).double()
    for axes in ((0, 1), 0, 1):
        mean = keep.mean(axes)
        error = math.sqrt(share * (1 - share) / (keep.numel() / mean.numel()))
        assert ((mean - (1 - share)).abs() <= 5 * error + 1 / 65536).all()


@pytest.mark.wide
def test_neighbours_in_a_mask_know_nothing_of_each_other() -> None:
    """Eight columns share a call of Philox, and two of them a 32-bit number."""
    keep = keep_mask(torch.tensor([77], device=DEVICE), 2048, 64, 0.5).double() * 2 - 1
    for distance in range(1, 17):
        products = (keep[:, distance:] * keep[:, :-distance]).mean(0)
        assert products.abs().max() < 5 / math.sqrt(2048)
        assert (keep[distance:] * keep[:-distance]).mean(0).abs().max() < 5 / math.sqrt(2048 - distance)


@pytest.mark.parametrize("other", [8, 7 + 2**40], ids=["low bits", "high bits"])
def test_a_mask_is_its_seeds(other: int) -> None:
    masks = [keep_mask(torch.tensor([seed], device=DEVICE), 20, 40, 0.5) for seed in (7, 7, other)]
    assert torch.equal(masks[0], masks[1])
    assert 0.35 < (masks[0] == masks[2]).double().mean() < 0.65


def test_a_mask_depends_on_row_and_column_alone() -> None:
    """Not on the shapes of blocks, which follow from the width."""
    seed = torch.tensor([7], device=DEVICE)
    whole = keep_mask(seed, 30, 600, 0.3)
    for count, width in ((30, 17), (9, 128), (1, 599)):
        assert torch.equal(keep_mask(seed, count, width, 0.3), whole[:count, :width])


def test_two_calls_drop_differently() -> None:
    zeros, ones = torch.zeros(20, 40, device=DEVICE), torch.ones(20, 40, device=DEVICE)
    assert not torch.equal(dropped_sum(zeros, ones, 0.5), dropped_sum(zeros, ones, 0.5))


# --- operators --------------------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore")  # what torch's own checks warn of
def test_the_operators_keep_the_promises_that_compilers_rely_on() -> None:
    x, f, weight, bias = drawn(5, 12), drawn(5, 12), drawn(12), drawn(12)
    seed = torch.tensor([7], device=DEVICE)
    torch.library.opcheck(residual_norm, (x, f, weight, bias, seed, EPSILON, 0.3, True))
    torch.library.opcheck(residual_norm, (x, None, weight, bias, None, EPSILON, 0.0, True))
    torch.library.opcheck(residual_sum, (x, f, seed, 0.3))
    with torch.no_grad():
        torch.library.opcheck(residual_norm, (x, f, weight, bias, None, EPSILON, 0.0, False))
        for drawing in (seed, None):
            _, z, means, inverses = residual_norm(x, f, weight, bias, drawing, EPSILON, 0.3, True)
            torch.library.opcheck(residual_norm_backward, (x, z, means, inverses, weight, drawing, 0.3))


def test_the_kernels_are_not_made_for_float64_and_the_widest_rows() -> None:
    assert supports(torch.empty(2, 8192, dtype=torch.bfloat16))
    assert not supports(torch.empty(2, 8193))
    assert not supports(torch.empty(2, 8, dtype=torch.float64))
