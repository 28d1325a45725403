"""Skip connections: the position of the norm is data, not a branch."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.kernels import use_kernels
from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.linear import LayerNorm


class Residual(nn.Module):
    """Skip connection around a sublayer f with dropout D and norms N (`before`), M (`after`).

    y = M(s x + a D(f(N(x))))

    post        N = identity, M = norm, s = a = 1                      Vaswani et al. 2017, 3.1
    pre         N = norm, M = identity, s = a = 1                      Xiong et al. 2020
    rezero      N = M = identity, s = 1, a learned, 0 at first         Bachlechner et al. 2021
    tfixup      N = M = identity, s = a = 1                            Huang et al. 2020
    deepnorm    N = identity, M = norm, s > 1, a = 1                   Wang et al. 2022

    `gain` is what initial weights of the sublayer are multiplied by: those of values, of outputs and of networks.
    """

    def __init__(
        self,
        before: nn.Module,
        after: nn.Module,
        dropout: float,
        skip: float = 1.0,
        learned: bool = False,
        gain: float = 1.0,
    ) -> None:
        super().__init__()
        self.before, self.after, self.drop, self.skip, self.gain = before, after, Dropout(dropout), skip, gain
        self.weight = nn.Parameter(torch.zeros(())) if learned else None

    def forward(self, x_NE: Float[Tensor, "N E"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "N E"]:
        """Add the output of the sublayer to its input."""
        if use_kernels(x_NE):
            from heedful.nn.kernels import residual_norm  # imports Triton, which a CPU does not need

            if residual_norm.supports(x_NE):
                return self._by_kernels(x_NE, sublayer)
        y_NE: Tensor = self.after(self._skipped(x_NE) + self.drop(self._weighed(sublayer(self.before(x_NE)))))
        return y_NE

    def _by_kernels(self, x_NE: Float[Tensor, "N E"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "N E"]:
        """Compute the same, by kernels that read and write memory once."""
        from heedful.nn.kernels.residual_norm import norm_and_skip, norm_of_sum
        from heedful.nn.kernels.residual_sum import dropped_sum

        if isinstance(self.before, LayerNorm):
            h_NE, x_NE = norm_and_skip(x_NE, self.before.weight, self.before.bias, self.before.eps)
        else:
            h_NE = self.before(x_NE)
        f_NE, x_NE = self._weighed(sublayer(h_NE)), self._skipped(x_NE)
        share = self.drop.share if self.drop.training else 0.0
        if isinstance(self.after, LayerNorm):
            return norm_of_sum(x_NE, f_NE, self.after.weight, self.after.bias, self.after.eps, share)
        y_NE: Tensor = self.after(dropped_sum(x_NE, f_NE, share))
        return y_NE

    def _skipped(self, x_NE: Float[Tensor, "N E"]) -> Float[Tensor, "N E"]:
        return x_NE if self.skip == 1 else self.skip * x_NE

    def _weighed(self, f_NE: Float[Tensor, "N E"]) -> Float[Tensor, "N E"]:
        return f_NE if self.weight is None else self.weight.to(f_NE.dtype) * f_NE
