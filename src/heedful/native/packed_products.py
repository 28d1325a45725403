"""float32 products whose weights are in the order in which MKL reads them: no code of ours.

A step of a search multiplies the same few rows again and again, and reading the weights is all it waits for: in their
own order that takes 1.7 times as long. MKL's order depends on the number of rows, and the copy costs as much as some
products, so that weights are put in order once the same number of rows has come several times in a row.

The operations are private to PyTorch: where they are not there, or not what they were, products are what they always
are.
"""

import contextlib
from functools import cache
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.layers.embedding import Output
from heedful.nn.layers.linear import Linear

_REPEATS: Final = 4  # calls with the same number of rows before weights are put in order
_MOST: Final = 1024  # rows: products of more do not wait for weights


class PackedProduct:
    """y = x W^T + b of a module, with a copy of W in order for the number of rows that comes again and again."""

    def __init__(self, module: Linear | Output) -> None:
        self._module = module
        self._last = (0, 0)  # a number of rows, and how often it has come in a row
        self._packed: tuple[tuple[int, int, int], Tensor] | None = None

    def __call__(self, x: Float[Tensor, "*any K"]) -> Float[Tensor, "*any N"]:
        """Apply the map."""
        module, weight = self._module, self._module.weight
        rows = len(x) if x.dim() == 2 else 0
        if (
            not 1 < rows <= _MOST
            or torch.is_grad_enabled()
            or x.dtype != torch.float32
            or weight.dtype != torch.float32
            or x.device.type != "cpu"
        ):
            return self._usual(x)
        key = rows, weight.data_ptr(), weight._version
        packed = self._packed  # another thread may replace it at any time
        if packed is None or packed[0] != key:
            count = self._last[1] + 1 if self._last[0] == rows else 1
            self._last = rows, count
            if count < _REPEATS:
                return self._usual(x)
            packed = key, torch.ops.mkl._mkl_reorder_linear_weight(weight.detach(), rows)
            self._packed = packed
        product: Tensor = torch.ops.mkl._mkl_linear(x, packed[1], weight.detach(), module.bias, rows)
        return product

    def _usual(self, x: Tensor) -> Tensor:
        forward: Any = type(self._module).forward  # of the class, under this one
        product: Tensor = forward(self._module, x)
        return product


@cache
def can_pack() -> bool:
    """Whether PyTorch has the operations, and they multiply."""
    with contextlib.suppress(AttributeError, RuntimeError, TypeError), torch.no_grad():
        x, weight, bias = torch.ones(2, 8), torch.arange(32.0).view(4, 8), torch.ones(4)
        packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, 2)
        product: Tensor = torch.ops.mkl._mkl_linear(x, packed, weight, bias, 2)
        return torch.allclose(product, x @ weight.T + bias, atol=1e-5)
    return False


def use_packed_products(network: nn.Module) -> None:
    """Let the linear maps and output layers of a network on a CPU in float32 keep their weights in order."""
    if not can_pack():
        return
    for module in network.modules():
        if isinstance(module, Linear | Output) and type(module) in (Linear, Output):
            forward: Any = PackedProduct(module)
            module.forward = forward  # type: ignore[method-assign]
