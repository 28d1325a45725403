"""Gradients of what all steps of a loop share, computed once for all steps: one large product instead of many sums.

A step adds what it computes to its slice of `addends`, its slot, and takes what is shared without its gradient. The
gradient of a slot is that of the step's result. So when that of all addends arrives, every step has gone back, and what
is shared has its gradient at once: from the results' gradients, and from what the steps put aside.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Gradients = Callable[[Tensor], tuple[Tensor, ...]]  # from those of all results to those of what is shared


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
    """The addends of all steps' results, one step below the other; the gradient of what is shared goes through them.

    `gradients` must not hold anything that has a history: it would never be freed.
    """
    slots: Tensor = _DeferGradients.apply(addends_NX, gradients, *shared)  # type: ignore[no-untyped-call]
    return slots


def zero_addends(count: int, width: int, like: Float[Tensor, "*any"]) -> Float[Tensor, "N X"]:
    """Addends of zero, which take no memory."""
    return like.new_zeros(1, 1).expand(count, width)


class _AddToSlot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, result: Tensor, slot: Tensor) -> Tensor:
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        return gradients[0], gradients[0]


def add_to_slot(result_RX: Float[Tensor, "R X"], slot_RX: Float[Tensor, "R X"]) -> Float[Tensor, "R X"]:
    """The result of a step, added to its slot, which is zero."""
    sum_RX: Tensor = _AddToSlot.apply(result_RX, slot_RX)  # type: ignore[no-untyped-call]
    return sum_RX
