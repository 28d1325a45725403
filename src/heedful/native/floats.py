"""Linear maps with float32 weights as kernels read them: in blocks of 32 outputs, one input after the other.

    y = x W^T + b

PyTorch's product waits for the weights where there are few rows, and takes three times as long for 32 of them. What a
row is multiplied to depends on neither its neighbours nor the threads. The copy takes as much memory as the weights.
"""

from types import MethodType
from typing import Any, Final, NamedTuple, TypeGuard

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heedful.native.large_pages import move_to_large_pages
from heedful.native.library import FLOATS, Frame, Library, Op, library
from heedful.nn.evaluation_mode import computes_by_equation
from heedful.nn.layers.embedding import Output
from heedful.nn.layers.linear import Linear

_BLOCK: Final = 32  # outputs of a block
_GRANULE: Final = 64  # numbers of outputs are multiples of it
_MOST: Final = 256  # rows: PyTorch's product of more is as fast, and later faster


class PackedFloats(NamedTuple):
    """A linear map as kernels read it."""

    w: Float[Tensor, "blocks K 32"]
    bias: Float[Tensor, "n"]

    @classmethod
    def of(
        cls, weight_NK: Float[Tensor, "N K"], bias: Float[Tensor, "N"] | None, factor: float = 1.0
    ) -> "PackedFloats":
        """Pack a matrix and its bias, both multiplied by a factor."""
        more = -len(weight_NK) % _GRANULE
        weight_NK, b = weight_NK.detach(), torch.zeros(len(weight_NK)) if bias is None else bias.detach()
        if factor != 1.0:
            weight_NK, b = weight_NK * factor, b * factor
        w = F.pad(weight_NK, (0, 0, 0, more)).unflatten(0, (-1, _BLOCK)).transpose(1, 2).contiguous()
        return cls(w, F.pad(b, (0, more)))

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of outputs, padded, and of inputs."""
        return self.w.shape[0] * _BLOCK, self.w.shape[1]

    def op(self, source: int, target: int, act: int = 0, skip: int = -1, factor: float = 1.0) -> Op:
        """Return the product from one buffer to another."""
        n, k = self.sizes
        return Op(
            kind=FLOATS, in_=source, out=target, skip=skip, n=n, k=k, act=act, factor=factor,
            w=self.w.data_ptr(), bias=self.bias.data_ptr(),
        )  # fmt: skip

    def product(self, kernels: Library, x_MK: Float[Tensor, "M K"]) -> Float[Tensor, "M n"]:
        """Return the padded product with some vectors."""
        rows, (n, k) = len(x_MK), self.sizes
        x, y, frame = x_MK.float().contiguous(), torch.empty(rows, n), Frame(rows=rows, beams=1)
        frame.buffer[0], frame.stride[0], frame.buffer[1], frame.stride[1] = x.data_ptr(), k, y.data_ptr(), n
        kernels.run((Op * 1)(self.op(0, 1)), frame)
        return y


class FloatMap:
    """y = x W^T + b of a module: by the kernel where it can, and as the module has it otherwise."""

    def __init__(self, module: Linear | Output, packed: PackedFloats) -> None:
        self.packed, self._module = packed, module
        self._versions = versions_of(module)

    @property
    def is_current(self) -> bool:
        """Whether the weights are those that were packed, on a CPU in float32."""
        weight = self._module.weight
        return (
            versions_of(self._module) == self._versions
            and weight.dtype == torch.float32
            and weight.device.type == "cpu"
        )

    def __call__(self, x: Float[Tensor, "*any K"]) -> Float[Tensor, "*any N"]:
        """Apply the map."""
        weight, kernels = self._module.weight, library()
        has_gradient = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
        if (
            kernels is None
            or not 0 < x.numel() <= _MOST * x.shape[-1]
            or x.dtype != torch.float32
            or has_gradient
            or computes_by_equation()
            or not self.is_current
        ):
            forward: Any = type(self._module).forward  # of the class, under this one
            usual: Tensor = forward(self._module, x)
            return usual
        y_MN = self.packed.product(kernels, x.reshape(-1, x.shape[-1]))[:, : len(weight)]
        return y_MN.reshape(*x.shape[:-1], len(weight))

    def __reduce__(self) -> tuple[Any, ...]:  # a copy of the module computes by itself: its weights are others
        return MethodType, (type(self._module).forward, self._module)


def versions_of(module: nn.Module) -> list[tuple[int, int]]:
    """Return what changes when a parameter of a module is written to, or replaced."""
    return [(parameter._version, parameter.data_ptr()) for parameter in module.parameters()]


def map_of(module: nn.Module) -> FloatMap | None:
    """Return the packed map of a module; None where it has none."""
    found = module.__dict__.get("forward")
    return found if isinstance(found, FloatMap) else None


def use_float_maps(network: nn.Module) -> None:
    """Let the kernel multiply for the linear maps and output layers of a network on a CPU, from copies of the weights.

    A network without gradients is meant: the weights are those that it has now, until `forget_kernels`.
    """
    if library() is None:
        return
    chosen = list(dict.fromkeys(module for module in network.modules() if _is_map(module)))
    packed = [PackedFloats.of(module.weight, module.bias) for module in chosen]
    move_to_large_pages([each.w for each in packed])  # in the order in which a step reads them
    for module, its in zip(chosen, packed, strict=True):
        forward: Any = FloatMap(module, its)
        module.forward = forward  # type: ignore[method-assign]  # the module stays, for whoever looks inside


def has_float_maps(network: nn.Module) -> bool:
    """Whether the kernel multiplies for a network in float32."""
    return any(map_of(module) is not None for module in network.modules())


def ranks_by_kernel(output: nn.Module) -> bool:
    """Whether the scores of an output layer are float32 on a CPU, of a model that kernels multiply for."""
    found = map_of(output)
    return found is not None and found.is_current and not computes_by_equation()


def _is_map(module: nn.Module) -> TypeGuard[Linear | Output]:
    return (type(module) is Linear or type(module) is Output) and module.weight.dtype == torch.float32
