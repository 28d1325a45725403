"""Splits a projection into queries, keys and values per head, as views."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def split_heads(projected: Float[Tensor, "N PHD"], parts: int, heads: int) -> tuple[Tensor, ...]:
    """Return the parts of a projection, [N, H, D] each."""
    if projected.requires_grad and projected.is_cuda and not torch.compiler.is_compiling():
        split: tuple[Tensor, ...] = _Split.apply(projected, parts, heads)  # type: ignore[no-untyped-call]
        return split
    return projected.unflatten(1, (parts, heads, -1)).unbind(1)


class _Split(torch.autograd.Function):
    """Splits without a copy, and joins the gradients without one if a kernel wrote them next to each other."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
        return projected.unflatten(1, (parts, heads, -1)).unbind(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        first = gradients[0]
        tokens, heads, width = first.shape
        step = heads * width
        steps = (len(gradients) * step, width, 1)
        if all(
            gradient.stride() == steps
            and gradient.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
            and gradient.storage_offset() == first.storage_offset() + place * step
            for place, gradient in enumerate(gradients)
        ):
            return first.as_strided((tokens, len(gradients) * step), (len(gradients) * step, 1)), None, None
        return torch.stack(gradients, dim=1).flatten(1), None, None
