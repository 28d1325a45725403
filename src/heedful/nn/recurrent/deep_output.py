"""A deep output: one more layer between the state of a decoder and its output layer."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.layers.linear import Linear


class DeepOutput(nn.Module):
    """t = maxout(U s + V y + C c + b)      Cho et al. 2014, A.1; Bahdanau et al. 2015, A.2.2

    s is the state, y the previous word, c the context.
    """

    def __init__(self, state_width: int, word_width: int, context_width: int, width: int) -> None:
        super().__init__()
        self.from_state = Linear(state_width, 2 * width)
        self.from_word = Linear(word_width, 2 * width, bias=False)
        self.of_context = Linear(context_width, 2 * width, bias=False)

    def forward(
        self, s_NS: Float[Tensor, "N S"], y_NE: Float[Tensor, "N E"], from_context_NX: Float[Tensor, "N X"]
    ) -> Float[Tensor, "N W"]:
        """Return t from s, y, and C c, which `of_context` computes and several tokens may share."""
        return maxout(self.from_state(s_NS) + self.from_word(y_NE) + from_context_NX)


def maxout(u_NX: Float[Tensor, "N X"]) -> Float[Tensor, "N W"]:
    """y_i = max(u_i, u_(i+W)); of equal values, the second gets the gradient      Goodfellow et al. 2013, two pieces

    The papers pair neighbouring rows. Which rows form a pair makes no difference, and pairing halves is faster.
    """
    y_NW: Tensor = _Maxout.apply(u_NX)  # type: ignore[no-untyped-call]
    return y_NW


class _Maxout(torch.autograd.Function):
    """Maxout by differences: masks, as in the gradient of `torch.maximum`, are ten times slower on a CPU."""

    @staticmethod
    def forward(ctx: Any, u_NX: Tensor) -> Tensor:
        first, second = u_NX.chunk(2, dim=1)
        ctx.save_for_backward(first - second)
        return torch.maximum(first, second)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (difference,), (gradient,) = ctx.saved_tensors, gradients
        of_first = torch.ops.aten.threshold_backward(
            gradient, difference, 0
        )  # zero where the difference is not positive
        return torch.cat([of_first, gradient - of_first], dim=1)
