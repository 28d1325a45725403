"""The weights of a linear map in the precision that it has, as plans change and pack them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self

from torch import Tensor, nn

from heedful.native.floats import PackedFloats, map_of
from heedful.native.int8 import Int8Linear, Int8Output, Packed8, Quantized
from heedful.nn.layers.embedding import Output
from heedful.nn.layers.linear import Linear

Change = Callable[[Tensor], Tensor]
Packed = Packed8 | PackedFloats


class NotNativeError(Exception):
    """What kernels cannot run; the message is a clause."""


class Weights(Protocol):
    """y = x W^T + b"""

    def rows(self, change: Change) -> Self:
        """Change the rows of W, and with them the numbers of b and scales."""

    def columns(self, change: Change) -> Self:
        """Change the columns of W."""

    def packed(self, factor: float = 1.0) -> Packed:
        """Return s (x W^T + b) as kernels read it."""


@dataclass(frozen=True)
class _Floats:
    weight_NK: Tensor
    bias_N: Tensor | None
    kept: PackedFloats | None  # the same as kernels read it

    def rows(self, change: Change) -> "_Floats":
        bias_N = None if self.bias_N is None else change(self.bias_N.detach())
        return _Floats(change(self.weight_NK.detach()), bias_N, None)

    def columns(self, change: Change) -> "_Floats":
        return _Floats(change(self.weight_NK.detach()), self.bias_N, None)

    def packed(self, factor: float = 1.0) -> PackedFloats:
        if self.kept is not None and factor == 1.0:
            return self.kept
        return PackedFloats.of(self.weight_NK, self.bias_N, factor)


@dataclass(frozen=True)
class _Int8:
    linear: Int8Linear
    quantized: Quantized | None = None  # where it is not that of the map
    bias_N: Tensor | None = None

    def rows(self, change: Change) -> "_Int8":
        q_NK, scale_N = self.quantized or self.linear.quantized
        bias_N = None if self.bias_N is None else change(self.bias_N)
        return replace(self, quantized=Quantized(change(q_NK), change(scale_N)), bias_N=bias_N)

    def columns(self, change: Change) -> "_Int8":
        q_NK, scale_N = self.quantized or self.linear.quantized
        return replace(self, quantized=Quantized(change(q_NK), scale_N))

    def packed(self, factor: float = 1.0) -> Packed8:
        if self.quantized is None and factor == 1.0:
            return self.linear.packed
        return Packed8.of(self.quantized or self.linear.quantized, self.bias_N, factor)


def weights_of(module: nn.Module) -> Weights:
    """Return the weights of a linear map or an output layer."""
    if isinstance(module, Int8Output):
        module = module.map
    if isinstance(module, Int8Linear):
        return _Int8(module, None, module.bias)
    kept = map_of(module)
    if kept is not None and kept.is_current and (type(module) is Linear or type(module) is Output):
        return _Floats(module.weight, module.bias, kept.packed)
    raise NotNativeError("kernels do not multiply by all of its maps")
