"""Products of one matrix with a new input at every step of a loop."""

from collections.abc import Sequence
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.nn.recurrent.deferred_gradients import defer_gradients, zero_addends

_MULTIPLE: Final = 16  # rows that the matrix unit of a CPU processes at a time


class StepProducts:
    """a(t) + x(t) W^T, step by step; the gradient of W is one product for all steps.

    All a(t) are given at once, concatenated; without them, nothing is added. `sizes` are the rows of each step.
    """

    def __init__(
        self, weight_GI: Float[Tensor, "G I"], sizes: Sequence[int], addend_NG: Float[Tensor, "N G"] | None = None
    ) -> None:
        self._inputs = inputs = [weight_GI.detach()] * len(sizes)  # replaced by each step
        self._weight_GI, self._adds = weight_GI.detach(), addend_NG is not None
        addend_NG = zero_addends(sum(sizes), len(weight_GI), weight_GI) if addend_NG is None else addend_NG
        slots_NG = defer_gradients(addend_NG, lambda gradient_NG: (gradient_NG.t() @ torch.cat(inputs),), weight_GI)
        self._slots = slots_NG.split(list(sizes))

    def __call__(self, step: int, x_RI: Float[Tensor, "R I"]) -> Float[Tensor, "R G"]:
        """Return the product of one step; call it once per step."""
        self._inputs[step] = x_RI.detach()
        slot_RG = self._slots[step]
        y_RG: Tensor = _StepProduct.apply(slot_RG, x_RI, self._weight_GI, self._adds)  # type: ignore[no-untyped-call]
        return y_RG


class _StepProduct(torch.autograd.Function):
    """a + x W^T; the gradient of W is computed from that of a: see `defer_gradients`."""

    @staticmethod
    def forward(ctx: Any, slot_RG: Tensor, x_RI: Tensor, weight_GI: Tensor, adds: bool) -> Tensor:
        ctx.weight_GI = weight_GI
        if not adds:
            return steady_product(x_RI, weight_GI.t())
        if _is_steady(x_RI):
            return torch.addmm(slot_RG, x_RI, weight_GI.t())
        return steady_product(x_RI, weight_GI.t()).add_(slot_RG)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        return gradients[0], steady_product(gradients[0], ctx.weight_GI), None, None


def steady_product(x_RI: Float[Tensor, "R I"], matrix_IG: Float[Tensor, "I G"]) -> Float[Tensor, "R G"]:
    """Return x M, without gradients, with rows padded to a multiple where kernels are compiled per number of rows.

    A CPU does that for 16 bits; it takes milliseconds, and a thousand kernels are kept. Steps have any number of rows,
    so that without padding almost every product would wait for a compilation.
    """
    if _is_steady(x_RI):
        return x_RI @ matrix_IG
    rows, width = x_RI.shape
    filled = x_RI.new_empty(-(-rows // _MULTIPLE) * _MULTIPLE, width)
    filled[:rows] = x_RI
    return (filled @ matrix_IG)[:rows]


def _is_steady(x_RI: Tensor) -> bool:
    return x_RI.device.type != "cpu" or x_RI.dtype.itemsize > 2 or x_RI.shape[0] % _MULTIPLE == 0
