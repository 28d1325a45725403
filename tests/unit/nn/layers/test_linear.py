import pytest
import torch
from torch import Tensor

from heedful.nn.kernels import without_kernels
from heedful.nn.layers.linear import LayerNorm, Linear, RMSNorm

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # on the CPU Triton interprets the kernels


@pytest.mark.parametrize("bias", [True, False])
def test_a_map_computes_in_the_type_of_its_input_and_keeps_its_weights(bias: bool) -> None:
    linear = Linear(6, 4, bias=bias)
    x = torch.randn(3, 6)
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 1e-6), (torch.bfloat16, 0.03)):
        y = linear(x.to(dtype))
        assert y.dtype == dtype
        expected = x @ linear.weight.T + (linear.bias if bias else 0)
        torch.testing.assert_close(y.float(), expected, atol=tolerance, rtol=0)
        y.sum().backward()
    assert linear.weight.dtype == torch.float32
    assert linear.weight.grad is not None
    assert linear.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("shape", [(12,), (5, 12), (2, 3, 12), (0, 12)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_map_by_the_kernels_is_the_same_map(
    shape: tuple[int, ...], bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    linear = Linear(12, 7, bias=bias, device=DEVICE)
    x, slopes = torch.randn(shape, device=DEVICE).requires_grad_(), torch.randn(*shape[:-1], 7, device=DEVICE)

    def answers() -> list[Tensor]:
        y = linear(x)
        return [y, *torch.autograd.grad(y, [x, *linear.parameters()], slopes)]

    with without_kernels():
        plain = answers()
    monkeypatch.setattr("heedful.nn.layers.linear.use_kernels", lambda _: True)
    for found, expected in zip(answers(), plain, strict=True):
        torch.testing.assert_close(found, expected)


def test_a_map_of_float64_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels would sum in float32."""
    pytest.importorskip("triton")
    monkeypatch.setattr("heedful.nn.layers.linear.use_kernels", lambda _: True)
    linear = Linear(12, 7, dtype=torch.float64, device=DEVICE)
    slopes = torch.randn(5, 7, dtype=torch.float64, device=DEVICE)
    (found,) = torch.autograd.grad(linear(torch.randn(5, 12, dtype=torch.float64, device=DEVICE)), linear.bias, slopes)
    torch.testing.assert_close(found, slopes.sum(0), atol=1e-12, rtol=0)


def test_a_norm_of_bfloat16_is_rounded_once() -> None:
    """Its statistics are not of 8 bits: the answer is the float64 one, rounded (2^-8 of values up to 8)."""
    norm = LayerNorm(64)
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(0.5, 2, 64))
        norm.bias.copy_(torch.linspace(-1, 1, 64))
    x = (3 + 10 * torch.randn(20, 64)).bfloat16()
    wide = x.double()
    spread = (wide.var(1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    expected = (wide - wide.mean(1, keepdim=True)) / spread * norm.weight.double() + norm.bias.double()
    found = norm(x)
    assert found.dtype == torch.bfloat16
    error = (found.double() - expected).abs()
    assert (error <= 2**-8 * expected.abs() + 2**-12).all()


def test_a_norms_weights_learn_in_float32_from_bfloat16_values() -> None:
    norm = LayerNorm(16)
    x = torch.randn(9, 16).bfloat16().requires_grad_()
    factors = torch.randn(9, 16)
    (norm(x).float() * factors).sum().backward()
    assert x.grad is not None
    assert norm.weight.grad is not None
    assert x.grad.dtype == torch.bfloat16
    assert norm.weight.grad.dtype == torch.float32
    wide = x.detach().double()
    normal = (wide - wide.mean(1, keepdim=True)) / (wide.var(1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    expected = (normal * factors.bfloat16().double()).sum(0)
    torch.testing.assert_close(norm.weight.grad.double(), expected, atol=0.01, rtol=0.01)


@pytest.mark.parametrize(
    ("shape", "bias"), [((12,), True), ((5, 12), True), ((5, 12), False), ((2, 3, 12), True), ((0, 12), True)]
)
def test_a_norm_by_the_kernel_is_the_same_norm(
    shape: tuple[int, ...], bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    norm = LayerNorm(12, device=DEVICE, bias=bias)
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(torch.randn(12))
    x, slopes = torch.randn(2, *shape, device=DEVICE)
    x.requires_grad_()

    def answers() -> list[Tensor]:
        y = norm(x)
        return [y, *torch.autograd.grad(y, [x, *norm.parameters()], slopes)]

    with without_kernels():
        plain = answers()
    monkeypatch.setattr("heedful.nn.layers.linear.use_kernels", lambda _: True)
    for found, expected in zip(answers(), plain, strict=True):
        torch.testing.assert_close(found, expected)


def test_an_rms_norm_is_its_equation_rounded_once() -> None:
    """Neither a mean is subtracted nor a bias added; statistics are not of 8 bits."""
    norm = RMSNorm(64, eps=0.01)
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(0.5, 2, 64))
    x = (3 + 10 * torch.randn(20, 64)).bfloat16()
    wide = x.double()
    expected = wide / (wide.square().sum(1, keepdim=True) / 64 + 0.01).sqrt() * norm.weight.detach().double()
    found = norm(x)
    assert found.dtype == torch.bfloat16
    assert ((found.double() - expected).abs() <= 2**-8 * expected.abs() + 2**-12).all()
    torch.testing.assert_close(norm.double()(wide), expected)
    assert [name for name, _ in norm.named_parameters()] == ["weight"]
