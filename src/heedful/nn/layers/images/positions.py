"""Positions of patches in an image, as vectors.

Shape letters of this file: G  patches of an image, row by row
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.layers.positions import Sinusoidal


class LearnedGrid(nn.Module):
    """P(row, column) = that cell of a learned table      Dosovitskiy et al. 2021, 3.1

    Images with another number of rows or columns have the table at their size, interpolated by cubic polynomials
    (3.2 of the paper): P' = A P B^T, where each row of A and B has the weights of the next four rows or columns.
    """

    def __init__(self, rows: int, columns: int, width: int) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        self.weight = nn.Parameter(torch.empty(rows * columns, width))

    def forward(self, rows: int, columns: int) -> Float[Tensor, "G E"]:
        """Return the positions of all patches of an image with these rows and columns."""
        if (rows, columns) == (self.rows, self.columns):
            return self.weight
        down, across = interpolation(self.rows, rows, self.weight), interpolation(self.columns, columns, self.weight)
        table = self.weight.view(self.rows, self.columns, -1)
        return torch.einsum("yr,xc,rce->yxe", down, across, table).flatten(0, 1)


def interpolation(size: int, wanted: int, like: Float[Tensor, "*any"]) -> Float[Tensor, "wanted size"]:
    """Return the matrix that interpolates a sequence of numbers to another size by cubic polynomials."""
    single = torch.eye(size, dtype=like.dtype, device=like.device)[None, :, :, None]
    with torch.no_grad():
        return F.interpolate(single, (wanted, 1), mode="bicubic", align_corners=False)[0, :, :, 0].T


class SinusoidalGrid(nn.Module):
    """P(row, column) = [S(row), S(column)], S the sinusoids of Vaswani et al. 2017, 3.5, each of half the width

    An image may have any number of rows and columns.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 4:
            raise ValueError(f"sinusoidal positions on a grid need a width that is a multiple of 4, not {width}")
        self.along = Sinusoidal(width // 2)

    def forward(self, rows: int, columns: int) -> Float[Tensor, "G E"]:
        """Return the positions of all patches of an image with these rows and columns."""
        device = self.along.table.device
        down, across = (self.along(torch.arange(count, device=device), count) for count in (rows, columns))
        return torch.cat([down.repeat_interleave(columns, dim=0), across.repeat(rows, 1)], dim=1)
