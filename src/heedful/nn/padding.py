"""Conversions from packed to padded values and back, for kernels that need rectangles. Each is the other's gradient."""

from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from heedful.base.packed import Layout


class _Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packed: Tensor, layout: Layout) -> Tensor:
        ctx.layout = layout
        padded = packed.index_select(0, layout.gather.flatten())
        return padded.unflatten(0, (layout.sentences, layout.bound))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0].flatten(0, 1).index_select(0, ctx.layout.scatter), None


class _Unpad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, padded: Tensor, layout: Layout) -> Tensor:
        ctx.layout = layout
        return padded.flatten(0, 1).index_select(0, layout.scatter)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        layout, gradient = ctx.layout, gradients[0]
        padded = gradient.new_zeros(layout.sentences * layout.bound, *gradient.shape[1:])
        padded.index_copy_(0, layout.scatter, gradient)
        return padded.unflatten(0, (layout.sentences, layout.bound)), None


def pad(packed: Shaped[Tensor, "N *rest"], layout: Layout) -> Shaped[Tensor, "B L *rest"]:
    """Lay out sentences as rows of equal length. Values after the end of a sentence are arbitrary (`Layout.keep`)."""
    if layout.even:
        return packed.unflatten(0, (layout.sentences, layout.bound))
    padded: Tensor = _Pad.apply(packed, layout)  # type: ignore[no-untyped-call]
    return padded


def unpad(padded: Shaped[Tensor, "B L *rest"], layout: Layout) -> Shaped[Tensor, "N *rest"]:
    """Concatenate padded rows again, without the values after the end of each sentence."""
    if layout.even:
        return padded.flatten(0, 1)
    packed: Tensor = _Unpad.apply(padded, layout)  # type: ignore[no-untyped-call]
    return packed
