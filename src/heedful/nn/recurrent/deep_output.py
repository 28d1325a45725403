"""A deep output: one layer more between a decoder's state and its output layer."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.layers.linear import Linear


class DeepOutput(nn.Module):
    """t = maxout(U s + V y + C c + b)      Cho et al. 2014, A.1; Bahdanau et al. 2015, A.2.2

    s is the state, y the word before, c the context.
    """

    def __init__(self, state_width: int, word_width: int, context_width: int, width: int) -> None:
        super().__init__()
        self.from_state = Linear(state_width, 2 * width)
        self.from_word = Linear(word_width, 2 * width, bias=False)
        self.of_context = Linear(context_width, 2 * width, bias=False)

    def forward(
        self, s_NS: Float[Tensor, "N S"], y_NE: Float[Tensor, "N E"], from_context_NX: Float[Tensor, "N X"]
    ) -> Float[Tensor, "N W"]:
        """From s, y, and C c by `of_context`, which many tokens may share."""
        return maxout(self.from_state(s_NS) + self.from_word(y_NE) + from_context_NX)


def maxout(u_NX: Float[Tensor, "N X"]) -> Float[Tensor, "N W"]:
    """y_i = max(u_i, u_(i+W)); of equals the second has the gradient      Goodfellow et al. 2013, with two pieces

    The papers pair neighbours. Which two rows of a matrix are a pair has no meaning, and halves are quicker.
    """
    y_NW: Tensor = _Maxout.apply(u_NX)  # type: ignore[no-untyped-call]
    return y_NW


class _Maxout(torch.autograd.Function):
    """By differences: masks, as in the gradient of `torch.maximum`, take ten times as long on a CPU."""

    @staticmethod
    def forward(ctx: Any, u_NX: Tensor) -> Tensor:
        first, second = u_NX.chunk(2, dim=1)
        ctx.save_for_backward(first - second)
        return torch.maximum(first, second)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (difference,), (gradient,) = ctx.saved_tensors, gradients
        of_first = torch.ops.aten.threshold_backward(gradient, difference, 0)  # zero where the difference is not above
        return torch.cat([of_first, gradient - of_first], dim=1)
