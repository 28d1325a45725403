"""From the pixels of images of one size to one vector per patch: a linear map of each patch, or convolutions.

Shape letters of this file: G  patches of an image, row by row
"""

from collections.abc import Sequence
from typing import Final, Protocol

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.layers.linear import Linear

_GROUPS: Final = 8  # of channels that a norm takes together, where their number allows it


class Stem(Protocol):
    """Maps images, whose values are from -1 to 1, to one vector per patch."""

    patch: int  # pixels on each side of a patch

    def __call__(self, x: Float[Tensor, "B Y X C"]) -> Float[Tensor, "B G E"]:
        """Return the vectors of all patches; those at the right and lower edges may be incomplete."""


class Patches(nn.Module):
    """x = W patch + b: a linear map of the pixels of each patch      Dosovitskiy et al. 2021, 3.1

    A patch that is cut off by the edge of its image is filled up with zeros, a medium gray.
    """

    def __init__(self, patch: int, channels: int, width: int) -> None:
        super().__init__()
        self.patch = patch
        self.project = Linear(patch * patch * channels, width)

    def forward(self, x: Float[Tensor, "B Y X C"]) -> Float[Tensor, "B G E"]:
        """Return the vectors of all patches."""
        _, height, width, channels = x.shape
        size = self.patch
        x = F.pad(x, (0, 0, 0, -width % size, 0, -height % size))
        split = x.unflatten(2, (-1, size)).unflatten(1, (-1, size))  # images, rows, y, columns, x, channels
        patches = split.transpose(2, 3).reshape(x.shape[0], -1, size * size * channels)
        projected: Tensor = self.project(patches)
        return projected


class Convolution(nn.Module):
    """y = gelu(N(W * x + b)): a convolution of 3 x 3 pixels, zeros outside of the image      LeCun et al. 1989

    N is a group norm (Wu and He 2018), which, unlike a batch norm, looks at one image only.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.map = nn.Conv2d(channels, width, 3, padding=1)
        self.norm = nn.GroupNorm(_GROUPS if width % _GROUPS == 0 else 1, width)

    def forward(self, x: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B E Y X"]:
        """Convolve; norms compute in float32 or wider."""
        weight, bias = self.map.weight.to(x.dtype), self.map.bias
        y = F.conv2d(x, weight, None if bias is None else bias.to(x.dtype), padding=1)
        norm = self.norm
        wide = y.to(norm.weight.dtype) if norm.weight.itemsize > y.itemsize else y
        normed = F.group_norm(wide, norm.num_groups, norm.weight.to(wide.dtype), norm.bias.to(wide.dtype), norm.eps)
        return F.gelu(normed.to(x.dtype))


class Convolutions(nn.Module):
    """Stages of convolutions, each followed by the maximum over 2 x 2 pixels: a small convolutional network.

    A patch is what the stages reduce to one vector, 2 to the power of their number on each side; each vector sees some
    pixels around it too. As the stem of a Transformer: Xiao et al. 2021.
    """

    def __init__(self, channels: int, widths: Sequence[int], depth: int, width: int | None = None) -> None:
        super().__init__()
        self.patch = 2 ** len(widths)
        stages, before = [], channels
        for after in widths:
            stages.append(nn.Sequential(*(Convolution(after if n else before, after) for n in range(depth))))
            before = after
        self.stages = nn.ModuleList(stages)
        self.project = nn.Identity() if width is None else Linear(before, width)

    def forward(self, x: Float[Tensor, "B Y X C"]) -> Float[Tensor, "B G E"]:
        """Return the vectors of all patches."""
        y = x.permute(0, 3, 1, 2)
        for stage in self.stages:
            y = F.max_pool2d(stage(y), 2, ceil_mode=True)
        vectors: Tensor = self.project(y.flatten(2).transpose(1, 2))
        return vectors
