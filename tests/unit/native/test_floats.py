"""float32 products by the kernel are those of the modules, and a row has the bits that it has alone."""

import pytest
import torch
from torch import Tensor

from heedful.native import floats
from heedful.native.encoder import forget_kernels
from heedful.native.floats import PackedFloats, has_float_maps, map_of, ranks_by_kernel, use_float_maps
from heedful.native.library import Library, library
from heedful.nn.layers.embedding import Output
from heedful.nn.layers.linear import Linear

pytestmark = pytest.mark.skipif(library() is None, reason="the kernels cannot be compiled here")


def module_of(kind: str) -> Linear | Output:
    torch.manual_seed(0)
    if kind == "output":
        return Output(torch.nn.Parameter(torch.randn(90, 70)))
    return Linear(70, 90, bias=kind == "biased")


@pytest.fixture
def by_kernel(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the products that a kernel computed."""
    rows, multiply = list[int](), PackedFloats.product

    def counted(packed: PackedFloats, kernels: Library, x_MK: Tensor) -> Tensor:
        rows.append(len(x_MK))
        return multiply(packed, kernels, x_MK)

    monkeypatch.setattr(PackedFloats, "product", counted)
    return rows


@pytest.mark.parametrize("kind", ["biased", "plain", "output"])
@torch.no_grad()
def test_products_are_those_of_the_module(kind: str, by_kernel: list[int]) -> None:
    module, usual = module_of(kind), module_of(kind)
    use_float_maps(module)
    for rows in (3, 0, 256, 257, 1, 200):
        x = torch.randn(rows, 70)
        torch.testing.assert_close(module(x), usual(x))
    assert by_kernel == [3, 256, 1, 200]
    if isinstance(module, Linear):
        x = torch.randn(2, 70, 3).transpose(1, 2)  # whose rows are not contiguous
        torch.testing.assert_close(module(x), usual(x))
        assert module(torch.ones(70)).shape == (90,)


@torch.no_grad()
def test_a_row_has_the_same_bits_alone_among_others_and_with_any_number_of_threads() -> None:
    module, x, before = module_of("biased"), torch.randn(16, 70), torch.get_num_threads()
    use_float_maps(module)
    together = module(x)
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert torch.equal(torch.cat([module(x[:1]), module(x[1:4]), module(x[4:])]), together)
    finally:
        torch.set_num_threads(before)


@torch.no_grad()
@pytest.mark.parametrize("how", ["written to", "replaced"])
def test_weights_that_change_are_those_that_are_used(how: str, by_kernel: list[int]) -> None:
    module, x = module_of("plain"), torch.randn(4, 70)
    use_float_maps(module)
    if how == "written to":
        module.weight.mul_(2)
    else:
        module.weight.data = torch.zeros(90, 70)
    torch.testing.assert_close(module(x), x @ module.weight.T)
    assert not by_kernel
    assert module_of("output").weight is not None
    use_float_maps(module)  # anew
    torch.testing.assert_close(module(x), x @ module.weight.T)
    assert by_kernel == [4]


def test_gradients_and_other_types_take_the_usual_way(by_kernel: list[int]) -> None:
    module, x = module_of("biased"), torch.randn(4, 70)
    use_float_maps(module)
    assert has_float_maps(module)
    module(x).sum().backward()
    assert module.weight.grad is not None
    with torch.no_grad():
        assert module(x.bfloat16()).dtype == torch.bfloat16
        assert module.double()(x.double()).dtype == torch.float64
    assert not by_kernel
    forget_kernels(module)
    assert map_of(module) is None


@torch.no_grad()
def test_without_kernels_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    module, usual, x = module_of("output"), module_of("output"), torch.randn(4, 70)
    use_float_maps(module)
    assert ranks_by_kernel(module)
    monkeypatch.setattr(floats, "library", lambda: None)
    assert torch.equal(module(x), usual(x))
    use_float_maps(usual)
    assert not has_float_maps(usual)
