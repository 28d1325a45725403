"""The kernels that sum columns give the values of their plain references in float64."""

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.shared.covering import one_in
from tests.shared.examples import examples
from torch import Tensor

pytest.importorskip("triton")

from heedful.nn.kernels.column_sums import (
    column_sums,
    column_sums_operator,
    gelu_gradient_and_column_sums,
    gelu_gradient_operator,
    relu_gradient_and_column_sums,
    relu_gradient_operator,
)

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # on the CPU Triton interprets the kernels
TYPES = [torch.float32, torch.bfloat16, torch.float16]

rows, widths, types = st.integers(0, 40), st.integers(3, 70), st.sampled_from(TYPES)


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape).to(DEVICE, dtype)


def reference_column_sums(dy: Tensor) -> Tensor:
    """db = sum over rows dy"""
    return dy.sum(0, dtype=torch.promote_types(dy.dtype, torch.float32))


def reference_relu_gradient_and_column_sums(dy: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """dh = dy where y > 0, else 0; db = sum over rows dh"""
    dh = dy.where(y > 0, 0)
    return dh, reference_column_sums(dh)


def reference_gelu_gradient_and_column_sums(dy: Tensor, h: Tensor, tanh: bool) -> tuple[Tensor, Tensor, Tensor]:
    """dh = dy gelu'(h); db = sum over rows dh; gelu(h)"""
    if tanh:
        c, a = math.sqrt(2 / math.pi), 0.044715
        s = torch.sigmoid(2 * c * (h + a * h**3))
        slope = s + 2 * c * h * s * (1 - s) * (1 + 3 * a * h**2)
    else:
        s, density = 0.5 * (1 + torch.erf(h / math.sqrt(2))), torch.exp(-(h**2) / 2) / math.sqrt(2 * math.pi)
        slope = s + h * density
    dh = dy * slope
    return dh, reference_column_sums(dh), h * s


def assert_sums(found: Tensor, dy: Tensor) -> None:
    """Sums are float32 whatever they are of: their error is not one of 16 bits."""
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), reference_column_sums(dy.double()), atol=1e-5, rtol=1e-5)


@given(count=rows, width=widths, dtype=types)
@example(count=0, width=5, dtype=torch.float32)
@example(count=1, width=3, dtype=torch.bfloat16)
@example(count=500, width=300, dtype=torch.float32)  # several blocks of columns, chunks of several steps
@examples(25)
def test_sums_equal_the_reference(count: int, width: int, dtype: torch.dtype) -> None:
    dy = drawn(count, width, dtype=dtype)
    assert_sums(column_sums(dy), dy)


@given(count=rows, width=widths, dtype=types)
@example(count=0, width=5, dtype=torch.float32)
@example(count=500, width=300, dtype=torch.float32)
@examples(25)
def test_a_relus_gradient_and_its_sums_equal_the_reference(count: int, width: int, dtype: torch.dtype) -> None:
    dy, y = drawn(count, width, dtype=dtype), drawn(count, width, dtype=dtype).relu()
    dh, sums = relu_gradient_and_column_sums(dy, y)
    right, _ = reference_relu_gradient_and_column_sums(dy, y)
    assert dh.dtype == dtype
    assert torch.equal(dh, right)
    assert_sums(sums, right)


@given(count=rows, width=widths, dtype=types, tanh=st.booleans())
@example(count=500, width=300, dtype=torch.float32, tanh=True)
@examples(25)
def test_a_gelus_gradient_and_its_sums_equal_the_reference(
    count: int, width: int, dtype: torch.dtype, tanh: bool
) -> None:
    dy, h = drawn(count, width, dtype=dtype), drawn(count, width, dtype=dtype)
    dh, sums, y = gelu_gradient_and_column_sums(dy, h, tanh)
    right, of_columns, right_y = reference_gelu_gradient_and_column_sums(dy.double(), h.double(), tanh)
    assert dh.dtype == y.dtype == dtype
    bound = {torch.float32: 1e-6, torch.bfloat16: 0.01, torch.float16: 0.001}[dtype]
    torch.testing.assert_close(dh.double(), right, atol=bound, rtol=bound)
    torch.testing.assert_close(y.double(), right_y, atol=bound, rtol=bound)
    torch.testing.assert_close(sums.double(), of_columns, atol=1e-5, rtol=1e-5)  # rounded after they are added


@pytest.mark.parametrize("tanh", [True, False])
def test_the_gradient_is_that_of_torchs_gelu(tanh: bool) -> None:
    h, dy = drawn(9, 20).requires_grad_(), drawn(9, 20)
    value = torch.nn.functional.gelu(h, approximate="tanh" if tanh else "none")
    value.backward(dy)
    dh, _, y = gelu_gradient_operator(dy, h.detach(), tanh)
    assert h.grad is not None
    torch.testing.assert_close(y, value.detach(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(dh, h.grad, atol=1e-6, rtol=1e-5)


def test_the_gradient_is_that_of_torchs_relu() -> None:
    h, dy = drawn(9, 20).requires_grad_(), drawn(9, 20)
    y = h.relu()
    (right,) = torch.autograd.grad(y, h, dy)
    assert 0 < (right == 0).sum() < right.numel()
    for differentiate in (relu_gradient_and_column_sums, reference_relu_gradient_and_column_sums):
        dh, _ = differentiate(dy, y.detach())
        assert torch.equal(dh, right)


@pytest.mark.parametrize("count", one_in(2, [129, 300]))
def test_every_chunk_counts(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More chunks than the second pass adds up in one step."""
    monkeypatch.setattr("heedful.nn.kernels.column_sums._PROGRAMS", 1000)
    monkeypatch.setattr("heedful.nn.kernels.column_sums._ROWS", 1)
    dy = drawn(count, 20)
    assert_sums(column_sums(dy), dy)


def test_tensors_with_gaps_are_taken() -> None:
    dy, y = drawn(24, 10).T, drawn(10, 48).relu()[:, ::2]
    assert_sums(column_sums(dy), dy)
    repeated = drawn(1, 24).expand(10, 24)  # as behind a sum
    assert_sums(column_sums(repeated), repeated)
    for slopes in (dy, repeated):
        dh, sums = relu_gradient_and_column_sums(slopes, y)
        assert torch.equal(dh, slopes * (y > 0))
        assert_sums(sums, dh)


def test_sums_repeat_bit_for_bit() -> None:
    dy, y = drawn(500, 30), drawn(500, 30).relu()
    assert torch.equal(column_sums(dy), column_sums(dy))
    assert torch.equal(relu_gradient_and_column_sums(dy, y)[1], relu_gradient_and_column_sums(dy, y)[1])


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore")  # what torch's own checks warn of
def test_the_operators_keep_the_promises_that_compilers_rely_on() -> None:
    dy, y = drawn(5, 12), drawn(5, 12).relu()
    for slopes in (dy, drawn(12, 5).T, dy.half()):
        torch.library.opcheck(column_sums_operator, (slopes,))
        torch.library.opcheck(relu_gradient_operator, (slopes, y.to(slopes.dtype)))
