"""float32 products of a few rows, by a kernel that reads the weights as PyTorch stores them, once.

A step of a search multiplies a few rows, and reading the weights is all it waits for: PyTorch's product takes twice as
long. What a row is multiplied to depends on neither its neighbours nor the threads, and nothing is kept between calls.
"""

from typing import Any, Final, TypeGuard

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.native.large_pages import move_to_large_pages
from heedful.native.library import COLUMNS, library
from heedful.nn.evaluation_mode import computes_by_equation
from heedful.nn.layers.embedding import Output
from heedful.nn.layers.linear import Linear

_MOST: Final = 16  # rows: more do not wait for weights
_LEAST: Final = 1 << 12  # weights: those of fewer are there before a call is


class FewRows:
    """y = x W^T + b of a module: by the kernel where x has a few rows, and as the module has it otherwise."""

    def __init__(self, module: Linear | Output) -> None:
        self._module = module

    def __call__(self, x: Float[Tensor, "*any K"]) -> Float[Tensor, "*any N"]:
        """Apply the map."""
        module, weight = self._module, self._module.weight
        rows = x.numel() // max(1, x.shape[-1])
        if (
            not 0 < rows <= _MOST
            or not (x.dtype == weight.dtype == torch.float32)
            or x.device.type != "cpu"
            or (torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad))
            or not weight.is_contiguous()
            or computes_by_equation()
        ):
            return self._usual(x)
        kernels = library()
        if kernels is None:
            return self._usual(x)
        y_MN = kernels.product(x.reshape(rows, -1).contiguous(), weight, module.bias)
        return y_MN.view(*x.shape[:-1], len(weight))

    def _usual(self, x: Tensor) -> Tensor:
        forward: Any = type(self._module).forward  # of the class, under this one
        product: Tensor = forward(self._module, x)
        return product


def use_kernel_for_few_rows(network: nn.Module) -> None:
    """Let the linear maps and output layers of a network on a CPU multiply a few rows by the kernel."""
    chosen = [module for module in network.modules() if _has_kernel(module)]
    move_to_large_pages([*{id(module.weight): module.weight for module in chosen}.values()])
    for module in chosen:
        forward: Any = FewRows(module)
        module.forward = forward  # type: ignore[method-assign]


def ranks_by_kernel(output: nn.Module) -> bool:
    """Whether the scores of an output layer are float32 on a CPU, of a model that kernels multiply for."""
    return (
        isinstance(output.forward, FewRows)
        and output.weight.dtype == torch.float32
        and output.weight.device.type == "cpu"
        and not computes_by_equation()
    )


def _has_kernel(module: nn.Module) -> TypeGuard[Linear | Output]:
    """Whether the kernel can multiply by a module's weights, and does not do so yet."""
    return (
        (type(module) is Linear or type(module) is Output)
        and len(module.weight) >= COLUMNS
        and module.weight.numel() >= _LEAST
        and not isinstance(module.forward, FewRows)
    )
