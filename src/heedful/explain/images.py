"""The image that a model looked at, and the grid of patches that it was read in."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.base.packed import Images

CLASS: Final = "class"  # name of the class token


@dataclass(frozen=True, eq=False)
class ExplainedImage:
    """An image as the model read it: resized, in gray or colour, and cut into square patches, row by row."""

    pixels: NDArray[np.uint8]  # height x width x channels
    patch: int  # pixels on each side
    class_token: bool  # whether a token for the whole image comes before the patches

    @property
    def rows(self) -> int:
        """The number of patches from top to bottom; those at the edge may be cut."""
        return -(-self.pixels.shape[0] // self.patch)

    @property
    def columns(self) -> int:
        """The number of patches from left to right."""
        return -(-self.pixels.shape[1] // self.patch)

    def names(self) -> list[str]:
        """Return the name of each token: the class token, then row and column of each patch, counted from 1."""
        grid = [f"{row + 1},{column + 1}" for row in range(self.rows) for column in range(self.columns)]
        return [CLASS, *grid] if self.class_token else grid

    def packed(self) -> Images:
        """Return the image as a network reads it."""
        return Images.of([torch.from_numpy(self.pixels)], self.patch, self.class_token)

    def on_grid(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return weights of tokens, the last axis, as a grid: ... x row x column. The class token is left out."""
        patches = weights[..., 1:] if self.class_token else weights
        return patches.reshape(*patches.shape[:-1], self.rows, self.columns)

    def to_json(self) -> dict[str, Any]:
        """Return the sizes, without the pixels."""
        height, width, channels = self.pixels.shape
        return {
            "height": height,
            "width": width,
            "channels": channels,
            "patch": self.patch,
            "rows": self.rows,
            "columns": self.columns,
            "class_token": self.class_token,
            "sequence": "patches",
        }
