"""Pixels of images in stores, averaged to one small size: what the lines to beat of images are learned from."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.data.batches.images import ImageCollator
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore

MOST_IMAGES: Final = 5_000  # of training: more of them are sampled at equal distances
_SIDE: Final = 32  # pixels on each side, to which larger images are averaged


def side_of(stores: Sequence[TokenStore]) -> tuple[int, int]:
    """Return the height and width to which all images of stores are averaged: smaller ones stay as they are."""
    sizes = np.concatenate([store.streams["size"].values.reshape(-1, 2) for store in stores])
    height, width = sizes.max(axis=0).tolist()
    return min(_SIDE, height), min(_SIDE, width)


def pixels_of(stores: Sequence[TokenStore], rows: Indices, side: tuple[int, int]) -> Tensor:
    """Return the pixels of images, averaged to one size, from 0 to 1: images x features."""
    collator, found = ImageCollator(patch=1, class_token=False), []
    for row in rows:
        images = collator.images(stores, np.array([row]))
        (run,) = images.runs
        image = images.pixels.float().reshape(run.height, run.width, -1).permute(2, 0, 1)[None] / 255
        found.append(F.adaptive_avg_pool2d(image, side).flatten())
    return torch.stack(found)
