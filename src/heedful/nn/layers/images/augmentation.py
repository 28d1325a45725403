"""Random changes of images in training, drawn and computed on the device from torch's global generator.

Every image gets one affine map, from the pixels of the result to those of the image. With coordinates (down, right)
from the middle, o of the result and s of the image:

    s = R (c + A F o) - t      F mirrors, A and c crop, R rotates, t shifts

Values between pixels are interpolated linearly, and what is outside of the image is 0, black.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from heedful.base.packed import Images

_RATIO: Final = 4 / 3  # greatest change of proportions by a crop


@dataclass(frozen=True)
class Augmentation:
    """What is changed at random, and how much at most."""

    shift: int = 0  # pixels, in each direction
    rotation: float = 0.0  # degrees, in each direction
    crop: float = 1.0  # smallest share of the area that a crop leaves; it is enlarged to the size of the image
    flip: bool = False  # whether half of the images are mirrored, left and right exchanged
    mixup: float = 0.0  # parameter a of Beta(a, a), the weight in a mixture of two images; 0 mixes none

    @property
    def moves(self) -> bool:
        """Whether pixels move."""
        return bool(self.shift or self.rotation or self.crop < 1 or self.flip)

    def __call__(
        self, images: Images, labels: Int[Tensor, "B"] | Float[Tensor, "B C"], classes: int
    ) -> tuple[Images, Int[Tensor, "B"] | Float[Tensor, "B C"]]:
        """Return the changed images, and their labels: the share of each class where images are mixed.

        Labels are the class of each image, or 1 for each of several; negative where an image does not count.
        """
        images = self.move(images)
        if not self.mixup:
            return images, labels
        shares_BC = shares_of(labels, classes) if labels.ndim == 1 else labels
        mixed = [*self._mixed(images, shares_BC)]
        return images.with_pixels(torch.cat([part.flatten(0, 2) for part, _ in mixed])), torch.cat(
            [part for _, part in mixed]
        )

    def move(self, images: Images) -> Images:
        """Return the images with their pixels moved, if anything moves them."""
        return images.with_pixels(torch.cat([*self._moved(images)])) if self.moves else images

    def _moved(self, images: Images) -> Iterator[Float[Tensor, "P C"]]:
        for pixels in images.by_run():
            count, height, width, _ = pixels.shape
            yield resample(pixels, draw_maps(self, count, height, width, pixels.device)).flatten(0, 2)

    def _mixed(
        self, images: Images, shares_BC: Float[Tensor, "B C"]
    ) -> Iterator[tuple[Float[Tensor, "B Y X C"], Float[Tensor, "B K"]]]:
        parts = shares_BC.split([run.images for run in images.runs])
        for pixels, shares in zip(images.by_run(), parts, strict=True):
            yield mix(pixels, shares, draw_weights(self.mixup, len(pixels), pixels.device))


@dataclass(frozen=True, eq=False)
class Moves:
    """What is done to each image."""

    shift_B2: Float[Tensor, "B 2"]  # pixels down and right
    turn_B: Float[Tensor, "B"]  # radians, counter-clockwise
    part_B2: Float[Tensor, "B 2"]  # height and width of the crop, as shares of those of the image
    centre_B2: Float[Tensor, "B 2"]  # of the crop, from the middle of the image, in pixels
    mirror_B: Float[Tensor, "B"]  # -1 if left and right are exchanged, otherwise 1

    @classmethod
    def none(cls, count: int, device: torch.device | None = None) -> "Moves":
        """Return moves that leave images as they are."""
        pairs, ones = torch.zeros(count, 2, device=device), torch.ones(count, device=device)
        return cls(pairs, torch.zeros_like(ones), torch.ones_like(pairs), pairs, ones)

    def maps(self) -> Float[Tensor, "B 2 3"]:
        """Return the affine map of each image."""
        cosine, sine = self.turn_B.cos(), self.turn_B.sin()
        rotate_B22 = torch.stack([cosine, sine, -sine, cosine], dim=1).view(-1, 2, 2)
        scale_B2 = self.part_B2 * torch.stack([torch.ones_like(self.mirror_B), self.mirror_B], dim=1)
        moved_B2 = (rotate_B22 @ self.centre_B2.unsqueeze(2)).squeeze(2) - self.shift_B2
        return torch.cat([rotate_B22 * scale_B2.unsqueeze(1), moved_B2.unsqueeze(2)], dim=2)


def draw_maps(what: Augmentation, count: int, height: int, width: int, device: torch.device) -> Float[Tensor, "B 2 3"]:
    """Draw the affine map of each image."""
    moves = Moves.none(count, device)
    if what.shift:
        moves = replace(moves, shift_B2=torch.randint(-what.shift, what.shift + 1, (count, 2), device=device).float())
    if what.rotation:
        moves = replace(moves, turn_B=_between(count, device) * math.radians(what.rotation))
    if what.crop < 1:
        area_B = what.crop + (1 - what.crop) * torch.rand(count, device=device)
        ratio_B = (_between(count, device) * math.log(_RATIO) / 2).exp()
        part_B2 = (area_B.sqrt().unsqueeze(1) * torch.stack([ratio_B, 1 / ratio_B], dim=1)).clamp(max=1)
        down_B, right_B = _between(count, device) * height / 2, _between(count, device) * width / 2
        centre_B2 = (1 - part_B2) * torch.stack([down_B, right_B], dim=1)
        moves = replace(moves, part_B2=part_B2, centre_B2=centre_B2)
    if what.flip:
        moves = replace(moves, mirror_B=torch.randint(0, 2, (count,), device=device) * 2.0 - 1)
    return moves.maps()


def resample(pixels: Shaped[Tensor, "B Y X C"], maps_B23: Float[Tensor, "B 2 3"]) -> Float[Tensor, "B Y X C"]:
    """Apply an affine map to each image."""
    _, height, width, _ = pixels.shape
    down, right = (torch.arange(side, device=pixels.device) - (side - 1) / 2 for side in (height, width))
    places = torch.stack([*torch.meshgrid(down, right, indexing="ij"), torch.ones_like(down[:, None] + right)], dim=2)
    found_BYX2 = torch.einsum("bij,yxj->byxi", maps_B23, places)
    # In the library's order and units: right and down, from -1 to 1. No tensor is made of numbers of the host: such a
    # copy cannot be recorded in a CUDA graph.
    grid = torch.stack([found_BYX2[..., 1] / (width / 2), found_BYX2[..., 0] / (height / 2)], dim=3)
    moved = F.grid_sample(pixels.permute(0, 3, 1, 2).float(), grid, padding_mode="zeros", align_corners=False)
    return moved.permute(0, 2, 3, 1)


def mix(
    pixels: Shaped[Tensor, "B Y X C"], shares_BC: Float[Tensor, "B K"], weights_B: Float[Tensor, "B"]
) -> tuple[Float[Tensor, "B Y X C"], Float[Tensor, "B K"]]:
    """x_i' = w_i x_i + (1 - w_i) x_(i-1), and the same for the shares of classes      Zhang et al. 2018

    Images without a class, such as those that fill up a batch, are not mixed into others.
    """
    others_BC = shares_BC.roll(1, 0)
    weights_B = torch.where(others_BC.sum(1) > 0, weights_B, 1)
    by_image = weights_B.view(-1, 1, 1, 1)
    mixed = by_image * pixels + (1 - by_image) * pixels.roll(1, 0)
    return mixed, weights_B.unsqueeze(1) * shares_BC + (1 - weights_B.unsqueeze(1)) * others_BC


def shares_of(labels_B: Int[Tensor, "B"], classes: int) -> Float[Tensor, "B C"]:
    """Return 1 for the class of each image; zeros if its label is negative, as it does not count."""
    return F.one_hot(labels_B.clamp(min=0), classes) * (labels_B >= 0).unsqueeze(1).float()


def draw_weights(parameter: float, count: int, device: torch.device) -> Float[Tensor, "B"]:
    """Draw from Beta(a, a), at least 1/2: the larger part is the image itself."""
    drawn_B = torch._sample_dirichlet(torch.full((count, 2), parameter, device=device))[:, 0]
    return torch.maximum(drawn_B, 1 - drawn_B)


def _between(count: int, device: torch.device) -> Float[Tensor, "B"]:
    """Draw from the uniform distribution between -1 and 1."""
    return 2 * torch.rand(count, device=device) - 1
