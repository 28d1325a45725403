"""Gradients of tensors shared by all steps of a loop, computed once for all steps: one large product, not many sums.

Each step adds its result to its slice of `addends`, its slot, and uses the shared tensors detached. The gradient of a
slot equals that of the step's result. When the gradient of all addends arrives, every step has been differentiated, and
the gradients of the shared tensors are computed at once, from those of the results and from what the steps stored.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Gradients = Callable[[Tensor], tuple[Tensor, ...]]  # from the gradient of all results to those of the shared tensors


class _DeferGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, addends: Tensor, gradients: Gradients, *shared: Tensor) -> Tensor:
        ctx.gradients = gradients
        return addends.view_as(addends)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        shared = ctx.gradients(gradient) if any(ctx.needs_input_grad[2:]) else [None] * len(ctx.needs_input_grad[2:])
        return gradient, None, *shared


def defer_gradients(addends_NX: Float[Tensor, "N *X"], gradients: Gradients, *shared: Tensor) -> Float[Tensor, "N *X"]:
    """Return the slots of all steps, concatenated, through which the shared tensors get their gradients.

    `gradients` must not hold tensors that have a history: these would never be freed.
    """
    slots: Tensor = _DeferGradients.apply(addends_NX, gradients, *shared)  # type: ignore[no-untyped-call]
    return slots


def zero_addends(count: int, width: int, like: Float[Tensor, "*any"]) -> Float[Tensor, "N X"]:
    """Return addends of zero, which take no memory."""
    return like.new_zeros(1, 1).expand(count, width)


class _AddToSlot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, result: Tensor, slot: Tensor) -> Tensor:
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        return gradients[0], gradients[0]


def add_to_slot(result_RX: Float[Tensor, "R X"], slot_RX: Float[Tensor, "R X"]) -> Float[Tensor, "R X"]:
    """Add the result of a step to its slot, which is zero."""
    sum_RX: Tensor = _AddToSlot.apply(result_RX, slot_RX)  # type: ignore[no-untyped-call]
    return sum_RX
