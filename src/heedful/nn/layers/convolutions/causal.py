"""Causal convolutions over packed sentences: each token sees a few tokens of its sentence before it."""

from collections.abc import Callable, Mapping
from typing import Final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.linear import Linear


class CausalConvolution(nn.Module):
    """y(t) = sum_j W_j x(t - j) + b,  j = 0 ... kernel - 1;  x is 0 before the first token      Waibel et al. 1989

    One product with the vectors of all `kernel` tokens side by side, the newest first.
    """

    def __init__(self, input_width: int, output_width: int, kernel: int) -> None:
        super().__init__()
        self.kernel, self.project = kernel, Linear(kernel * input_width, output_width)

    def forward(self, x_NI: Float[Tensor, "N I"], layout: Layout) -> Float[Tensor, "N O"]:
        """Return y of every token."""
        positions_N1 = layout.positions.unsqueeze(1)
        seen = [x_NI, *(x_NI.roll(j, dims=0).masked_fill(positions_N1 < j, 0) for j in range(1, self.kernel))]
        y_NO: Tensor = self.project(torch.cat(seen, dim=1))
        return y_NO

    def step(
        self, x_RI: Float[Tensor, "R I"], before_RJI: Float[Tensor, "R J I"]
    ) -> tuple[Float[Tensor, "R O"], Float[Tensor, "R J I"]]:
        """Return y of one token per row, given the vectors of the kernel - 1 tokens before, the newest first.

        The second value is what the next step needs.
        """
        seen_RJI = torch.cat([x_RI.unsqueeze(1), before_RJI], dim=1)
        return self.project(seen_RJI.flatten(1)), seen_RJI[:, : self.kernel - 1]

    def last(self, x_NI: Float[Tensor, "N I"], layout: Layout) -> Float[Tensor, "B J I"]:
        """Return what a step after each sentence needs: the vectors of its last kernel - 1 tokens, the newest first."""
        back = torch.arange(1, self.kernel, device=x_NI.device)
        missing_BJ = layout.lengths.unsqueeze(1) < back
        if not layout.tokens:
            return x_NI.new_zeros(*missing_BJ.shape, x_NI.shape[1])
        places_BJ: Int[Tensor, "B J"] = (layout.offsets[1:].unsqueeze(1).long() - back).masked_fill(missing_BJ, 0)
        return x_NI[places_BJ].masked_fill(missing_BJ.unsqueeze(2), 0)


def _glu(values_NO: Float[Tensor, "N O"]) -> Float[Tensor, "N E"]:
    return F.glu(values_NO, dim=1)


# By name: how many times wider the convolution is than what comes out, and what comes out.
ACTIVATIONS: Final[Mapping[str, tuple[int, Callable[[Tensor], Tensor]]]] = {"relu": (1, torch.relu), "glu": (2, _glu)}


class ConvolutionBlock(nn.Module):
    """y = x + D(f(convolution of x))

    relu      f(a) = max(0, a)
    glu       f([a; g]) = a * sigmoid(g)      Dauphin et al. 2017
    """

    def __init__(self, width: int, kernel: int, activation: str, dropout: float) -> None:
        super().__init__()
        times, self.activation = ACTIVATIONS[activation]
        self.convolution, self.drop = CausalConvolution(width, times * width, kernel), Dropout(dropout)

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N E"]:
        """Return y of every token."""
        y_NE: Tensor = x_NE + self.drop(self.activation(self.convolution(x_NE, layout)))
        return y_NE

    def step(
        self, x_RE: Float[Tensor, "R E"], before_RJE: Float[Tensor, "R J E"]
    ) -> tuple[Float[Tensor, "R E"], Float[Tensor, "R J E"]]:
        """Return y of one token per row, and what the next step needs: see `CausalConvolution.step`."""
        values, following = self.convolution.step(x_RE, before_RJE)
        return x_RE + self.drop(self.activation(values)), following
