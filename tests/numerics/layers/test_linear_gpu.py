"""Linear maps with gradients of our own give the values and gradients that autograd gives in float64."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given
from hypothesis import strategies as st
from tests.shared.examples import examples
from tests.shared.refusals import refuses
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("triton")

import heedful.nn.layers.linear_gpu
from heedful.nn.layers.feedforward import FeedForward
from heedful.nn.layers.linear import Linear
from heedful.nn.layers.linear_gpu import gelu_network, linear, linear_relu, supports

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # on the CPU Triton interprets the kernels

Map = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def reference_relu(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.relu(F.linear(x, weight, bias))


def with_relu(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    assert bias is not None
    return linear_relu(x, weight, bias)


MAPS: list[tuple[Map, Map]] = [
    (linear, F.linear),
    (with_relu, reference_relu),
]
both_maps = pytest.mark.parametrize(("found", "right"), MAPS, ids=["linear", "relu"])


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape).to(DEVICE, dtype).requires_grad_()


def inputs(count: int, width: int, inner: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Values of a type, and float32 parameters."""
    return [drawn(count, width, dtype=dtype), drawn(inner, width), drawn(inner)]


def answers(function: Map, tensors: list[Tensor], slopes: Tensor) -> list[Tensor]:
    """Its value, and the gradients of what needs one."""
    y = function(*tensors, *[None] * (3 - len(tensors)))
    return [y.detach(), *torch.autograd.grad(y, [x for x in tensors if x.requires_grad], slopes.to(y.dtype))]


def assert_same_map(found: Map, right: Map, tensors: list[Tensor], slopes: Tensor, tolerance: float = 1e-5) -> None:
    """Compare values and gradients; the tolerance is on the scale of the largest value where that is above one."""
    wide = [x.detach().double().requires_grad_(x.requires_grad) for x in tensors]
    learnt = [x for x in tensors if x.requires_grad]
    ours = answers(found, tensors, slopes)
    for tensor, expected, like in zip(ours, answers(right, wide, slopes), [tensors[0], *learnt], strict=True):
        assert tensor.dtype == like.dtype
        assert (tensor.double() - expected).abs().max() <= tolerance * max(1.0, expected.abs().max().item())


@given(count=st.integers(1, 40), width=st.integers(1, 30), inner=st.integers(3, 70), biased=st.booleans())
@example(count=40, width=7, inner=130, biased=True)
@examples(15)
def test_a_map_and_its_gradients_are_autograds(count: int, width: int, inner: int, biased: bool) -> None:
    tensors = inputs(count, width, inner)[: 3 if biased else 2]
    assert_same_map(linear, F.linear, tensors, torch.randn(count, inner, device=DEVICE))


@given(count=st.integers(1, 40), width=st.integers(1, 30), inner=st.integers(3, 70))
@examples(15)
def test_a_map_with_a_relu_and_its_gradients_are_autograds(count: int, width: int, inner: int) -> None:
    slopes = torch.randn(count, inner, device=DEVICE)
    assert_same_map(with_relu, reference_relu, inputs(count, width, inner), slopes)


@both_maps
@pytest.mark.parametrize("frozen", [[0], [1], [2], [1, 2], [0, 1], [0, 2]], ids=str)
def test_what_needs_no_gradient_gets_none_and_changes_no_other(found: Map, right: Map, frozen: list[int]) -> None:
    tensors = inputs(11, 6, 9)
    for place in frozen:
        tensors[place].requires_grad_(False)
    assert_same_map(found, right, tensors, torch.randn(11, 9, device=DEVICE))
    y = found(*tensors)
    y.sum().backward()
    assert [x.grad is None for x in tensors] == [place in frozen for place in range(3)]


@both_maps
@pytest.mark.parametrize(
    "gaps", [lambda: torch.randn(9, 11, device=DEVICE).T, lambda: torch.randn(1, 9, device=DEVICE).expand(11, 9)]
)
def test_gradients_with_gaps_are_taken(found: Map, right: Map, gaps: Callable[[], Tensor]) -> None:
    slopes = gaps()
    assert not slopes.is_contiguous()
    assert_same_map(found, right, inputs(11, 6, 9), slopes)


@both_maps
def test_values_with_gaps_are_taken(found: Map, right: Map) -> None:
    x = torch.randn(6, 22, device=DEVICE)[:, ::2].T.requires_grad_()
    assert_same_map(found, right, [x, drawn(9, 6), drawn(9)], torch.randn(11, 9, device=DEVICE))


@both_maps
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.03), (torch.float16, 0.004)])
def test_values_of_16_bits_meet_weights_of_float32(
    found: Map, right: Map, dtype: torch.dtype, tolerance: float
) -> None:
    slopes = torch.randn(11, 9, device=DEVICE).to(dtype)
    assert_same_map(found, right, inputs(11, 6, 9, dtype), slopes, tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_float32_weights_are_never_of_16_bits(dtype: torch.dtype) -> None:
    """They are sums of products of 16-bit values, in float32: far nearer to the exact sums than 16 bits can come."""
    x, weight, bias = inputs(200, 6, 9, dtype)
    slopes = torch.randn(200, 9, device=DEVICE).to(dtype)
    _, _, dW, db = answers(linear, [x, weight, bias], slopes)
    assert dW.dtype == db.dtype == torch.float32
    torch.testing.assert_close(dW.double(), slopes.double().T @ x.detach().double(), atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(db.double(), slopes.double().sum(0), atol=1e-4, rtol=1e-5)


@both_maps
def test_weights_of_16_bits_get_gradients_of_16_bits(found: Map, right: Map) -> None:
    tensors = [drawn(*shape, dtype=torch.float16) for shape in ((11, 6), (9, 6), (9,))]
    assert_same_map(found, right, tensors, torch.randn(11, 9, device=DEVICE).half(), 0.004)


@both_maps
def test_no_rows_have_no_values_and_parameters_no_gradient(found: Map, right: Map) -> None:
    y, dx, dW, db = answers(found, inputs(0, 6, 9), torch.randn(0, 9, device=DEVICE))
    assert y.shape == (0, 9)
    assert dx.shape == (0, 6)
    assert not dW.any()
    assert not db.any()


@both_maps
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_nothing_is_kept_where_nothing_learns(
    found: Map, right: Map, mode: Callable[[], AbstractContextManager[object]]
) -> None:
    tensors = inputs(11, 6, 9)
    with mode():
        y = found(*tensors)
    assert y.grad_fn is None
    torch.testing.assert_close(y, right(*tensors).detach())
    assert found(*[x.detach() for x in tensors]).grad_fn is None


class Operators(TorchDispatchMode):
    """Notes the operators that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(func._schema.name)
        return func(*args, **kwargs or {})


def test_a_frozen_map_computes_no_gradient_of_its_weight_and_keeps_no_values() -> None:
    x, weight, bias = inputs(11, 6, 9)
    y = linear(x, weight.detach(), bias.detach())
    with Operators() as ran:
        y.sum().backward()
    assert ran.names.count("aten::mm") == 1
    kept = [linear(x.detach(), weight, bias), linear(x, weight.detach(), bias.detach())]
    saved = [y.grad_fn.saved_tensors for y in kept if y.grad_fn is not None]  # type: ignore[attr-defined]
    assert [[tensor is None for tensor in tensors] for tensors in saved] == [[False, True], [True, False]]


def test_a_second_derivative_is_refused() -> None:
    x, weight, bias = inputs(11, 6, 9)
    (dx,) = torch.autograd.grad(linear_relu(x, weight, bias).square().sum(), x, create_graph=True)
    with refuses("...once_differentiable...", RuntimeError):
        dx.sum().backward()


@pytest.mark.parametrize("name", ["linear", "linear_relu"])
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch warns of its compiler
def test_a_map_goes_through_a_compiler_whole(name: str) -> None:
    """As one graph of PyTorch's and our operators, forward and backward."""
    function = getattr(unchecked(heedful.nn.layers.linear_gpu), name)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    tensors, slopes = inputs(11, 6, 9), torch.randn(11, 9, device=DEVICE)
    for tensor, expected in zip(answers(compiled, tensors, slopes), answers(function, tensors, slopes), strict=True):
        torch.testing.assert_close(tensor, expected)


def unchecked(module: ModuleType) -> ModuleType:
    """The same module under a name whose types the tests do not check: compilers cannot read the checks."""
    spec = spec_from_file_location(f"unchecked_{module.__name__.rsplit('.', 1)[-1]}", module.__file__)
    assert spec is not None
    assert spec.loader is not None
    copy = module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy


def test_modules_choose_these_maps_where_kernels_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("linear", "feedforward"):
        monkeypatch.setattr(f"heedful.nn.layers.{module}.use_kernels", lambda _: True)
    x = drawn(5, 6)
    with Operators() as ran:
        Linear(6, 9, device=DEVICE)(x).sum().backward()
    assert ran.names.count("aten::sum") == 1  # the one here: a bias is summed by a kernel
    for activation, fused in (("relu", True), ("gelu", False)):
        with Operators() as ran:
            FeedForward(6, 9, activation).to(DEVICE)(x)
        assert ("aten::_addmm_activation" in ran.names) == fused
        assert (f"aten::{activation}" in ran.names) != fused


def test_the_maps_are_not_made_for_float64() -> None:
    assert supports(torch.empty(2, 8, dtype=torch.bfloat16))
    assert not supports(torch.empty(2, 8, dtype=torch.float64))


@pytest.mark.parametrize("tanh", [True, False])
@given(count=st.integers(1, 40), width=st.integers(1, 30), inner=st.integers(3, 70))
@examples(10)
def test_a_network_with_a_gelu_and_its_gradients_are_autograds(tanh: bool, count: int, width: int, inner: int) -> None:
    x, into, into_bias = inputs(count, width, inner)
    parts = (x, into, into_bias, drawn(width, inner), drawn(width))
    slopes = torch.randn(count, width, device=DEVICE)
    wide = [part.detach().double().requires_grad_() for part in parts]
    found = gelu_network(*parts, tanh)
    h = F.linear(wide[0], wide[1], wide[2])
    right = F.linear(F.gelu(h, approximate="tanh" if tanh else "none"), wide[3], wide[4])
    ours = [found, *torch.autograd.grad(found, parts, slopes)]
    theirs = [right, *torch.autograd.grad(right, wide, slopes.double())]
    for one, other in zip(ours, theirs, strict=True):
        assert (one.double() - other).abs().max() <= 1e-5 * max(1.0, other.abs().max().item())


@pytest.mark.parametrize("tanh", [True, False])
def test_a_network_without_gradients_has_the_same_values(tanh: bool) -> None:
    x, into, into_bias = inputs(9, 8, 24)
    parts = (x, into, into_bias, drawn(8, 24), drawn(8))
    with torch.no_grad():
        found = gelu_network(*parts, tanh)
    # The GELU that a GPU fuses with the product computes its tanh less precisely; values here reach 50.
    torch.testing.assert_close(found, gelu_network(*parts, tanh).detach(), atol=1e-4, rtol=1e-5)
