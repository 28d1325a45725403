"""Convolutions over packed sentences, around each token: rows of table 1 in Vaswani et al. 2017."""

from typing import Final, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.layers.linear import Linear

_FURTHEST: Final = 2**20  # no sentence is longer; a power of a dilation, layer by layer, would overflow


class Convolution(nn.Module):
    """y(t) = sum_j W_j x(t + j D) + b,  j = -(kernel - 1) / 2 ... (kernel - 1) / 2;  x is 0 outside of the sentence

    One product with the vectors of all `kernel` tokens side by side: O(k n d^2). With a dilation D above 1 these tokens
    are D apart: where D grows by a factor from layer to layer, so does what a token sees      Kalchbrenner et al. 2016
    """

    def __init__(self, width: int, kernel: int, bias: bool = True, dilation: int = 1) -> None:
        super().__init__()
        self.reach, self.dilation = _reach(kernel), min(dilation, _FURTHEST)
        self.project = Linear(kernel * width, width, bias)

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N E"]:
        """Return y of every token."""
        seen = [shifted(x_NE, layout, by * self.dilation) for by in range(-self.reach, self.reach + 1)]
        return cast(Tensor, self.project(torch.cat(seen, dim=1)))


class SeparableConvolution(nn.Module):
    """y(t) = W sum_j d_j * x(t + j D) + b: each column by itself, then all columns of a token      Chollet 2017

    O(k n d + n d^2), as in the row of table 1.
    """

    def __init__(self, width: int, kernel: int, bias: bool = True, dilation: int = 1) -> None:
        super().__init__()
        self.reach, self.dilation = _reach(kernel), min(dilation, _FURTHEST)
        self.columns = nn.Parameter(torch.randn(kernel, width) * kernel**-0.5)
        self.project = Linear(width, width, bias)

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N E"]:
        """Return y of every token."""
        columns_KE = self.columns.to(x_NE.dtype)
        sums_NE = torch.zeros_like(x_NE)
        for index, by in enumerate(range(-self.reach, self.reach + 1)):
            sums_NE = torch.addcmul(sums_NE, shifted(x_NE, layout, by * self.dilation), columns_KE[index])
        return cast(Tensor, self.project(sums_NE))


def shifted(x_NE: Float[Tensor, "N E"], layout: Layout, by: int) -> Float[Tensor, "N E"]:
    """Return x(t + by) of each token; zeros where the sentence has no such token."""
    # In another sentence, and around the end of the batch, positions differ by something else.
    inside_N = layout.positions.roll(-by) - layout.positions == by
    return x_NE.roll(-by, dims=0).masked_fill(~inside_N.unsqueeze(1), 0)


def _reach(kernel: int) -> int:
    """Return how many tokens on each side a kernel sees."""
    if kernel % 2 == 0:
        raise ValueError(f"a kernel of {kernel} tokens has no token in its middle: it must be odd")
    return kernel // 2
