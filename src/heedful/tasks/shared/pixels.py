"""Pixels of images in stores, averaged to one small size: what the lines to beat of images are learned from."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.batches.images import ImageCollator
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore
from heedful.tasks.shared.line import sample_rows

_MOST_IMAGES: Final = 5_000  # of training: more of them are sampled at equal distances
_MOST_PIXELS: Final = 10**8  # of all these images, before they are averaged: files of large images are slow to decode
_SIDE: Final = 32  # pixels on each side, to which larger images are averaged
_TOGETHER: Final = 64  # images that are decoded at once


def sample_images(stores: Sequence[TokenStore]) -> tuple[Indices, str]:
    """Return images of training stores, at equal distances where there are many, and which these are, in words."""
    mean = float(_sizes(stores).prod(axis=1).mean())
    return sample_rows(sum(map(len, stores)), max(1, min(_MOST_IMAGES, int(_MOST_PIXELS / mean))), "image")


def side_of(stores: Sequence[TokenStore]) -> tuple[int, int]:
    """Return the height and width to which all images of stores are averaged."""
    height, width = _sizes(stores).max(axis=0).tolist()
    return min(_SIDE, height), min(_SIDE, width)


def pixels_of(stores: Sequence[TokenStore], rows: Indices, side: tuple[int, int]) -> Tensor:
    """Return the pixels of images, averaged to one size, from 0 to 1: images x features."""
    collator, found = ImageCollator(patch=1, class_token=False), []
    for part in np.array_split(rows, -(-len(rows) // _TOGETHER)):
        images = collator.images(stores, part)
        start = 0
        for run in images.runs:
            end = start + run.images * run.height * run.width
            shape = (run.images, run.height, run.width, -1)
            some = images.pixels[start:end].float().reshape(shape).permute(0, 3, 1, 2) / 255
            found.append(F.adaptive_avg_pool2d(some, side).flatten(1))
            start = end
    return torch.cat(found)


def _sizes(stores: Sequence[TokenStore]) -> NDArray[np.int64]:
    return np.concatenate([store.streams["size"].values.reshape(-1, 2).astype(np.int64) for store in stores])
