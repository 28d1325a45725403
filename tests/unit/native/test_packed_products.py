"""Products with weights in MKL's order are the products of the modules, whatever happens to either."""

import pytest
import torch
from torch import Tensor

from heedful.native.packed_products import PackedProduct, can_pack, use_packed_products
from heedful.nn.layers.embedding import Output
from heedful.nn.layers.linear import Linear

pytestmark = pytest.mark.skipif(not can_pack(), reason="this PyTorch has no packed products")


def module_of(kind: str) -> Linear | Output:
    torch.manual_seed(0)
    if kind == "output":
        return Output(torch.nn.Parameter(torch.randn(40, 24)))
    return Linear(24, 40, bias=kind == "biased")


@pytest.mark.parametrize("kind", ["biased", "plain", "output"])
@torch.no_grad()
def test_packed_products_are_products(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, usual = module_of(kind), module_of(kind)
    packed, multiply = list[int](), torch.ops.mkl._mkl_linear

    def counted(*arguments: Tensor) -> Tensor:
        packed.append(1)
        return multiply(*arguments)

    monkeypatch.setattr(torch.ops.mkl, "_mkl_linear", counted)
    use_packed_products(module)
    for rows in (3, 3, 3, 3, 3, 3, 7, 3, 7, 7, 7, 7, 7, 1, 0, 3):
        x = torch.randn(rows, 24)
        torch.testing.assert_close(module(x), usual(x))
    assert len(packed) >= 4
    if isinstance(module, Linear):
        torch.testing.assert_close(module(torch.ones(2, 3, 24)), usual(torch.ones(2, 3, 24)))


@torch.no_grad()
def test_weights_that_change_are_packed_again() -> None:
    module, x = Linear(24, 40, bias=False), torch.randn(4, 24)
    use_packed_products(module)
    for _ in range(6):
        module(x)
    module.weight.mul_(2)
    torch.testing.assert_close(module(x), x @ module.weight.T)
    module.weight.data = torch.zeros(40, 24)
    assert not module(x).any()


def test_gradients_and_other_types_take_the_usual_way() -> None:
    module, x = module_of("biased"), torch.randn(4, 24)
    use_packed_products(module)
    forward: object = module.forward
    assert isinstance(forward, PackedProduct)
    for _ in range(6):
        module(x).sum().backward()
    assert module.weight.grad is not None
    with torch.no_grad():
        for _ in range(6):
            assert module(x.bfloat16()).dtype == torch.bfloat16
            assert module.double()(x.double()).dtype == torch.float64
