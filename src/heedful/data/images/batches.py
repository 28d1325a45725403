"""Batches of images to classify, packed, of one size or of several."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.packed import Images, runs_of
from heedful.data.batch_layout import StaticShape, layout_of
from heedful.data.batches.texts import labels_of
from heedful.data.collate import rows_by_store
from heedful.data.epochs.loader import RowFeed
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.images.decoding import Pixels
from heedful.data.images.encoded import channels_of, rows_of_pixels
from heedful.data.movable import Movable
from heedful.data.token_store import Ragged, StreamType, TokenStore

SIZE = StreamType(np.dtype(np.uint32), (2,))  # height and width
LABEL = StreamType(np.dtype(np.uint32))


def pixel_stream(channels: int) -> StreamType:
    """Return the type of a stream whose items are pixels."""
    return StreamType(np.dtype(np.uint8), (channels,))


def image_streams(images: Sequence[Pixels], labels: Sequence[int | Sequence[int]] = ()) -> dict[str, Ragged]:
    """Return images, at least one, as rows of streams: their pixels, sizes, and classes if these are given."""
    channels = images[0].shape[2]
    flat = [image.reshape(-1, channels) for image in images]
    sizes = [np.array([image.shape[:2]], np.uint32) for image in images]
    streams = {"pixels": Ragged.of_arrays(flat, pixel_stream(channels)), "size": Ragged.of_arrays(sizes, SIZE)}
    rows = [[own] if isinstance(own, int) else own for own in labels]  # one class per image, or several
    return {**streams, "label": Ragged.of(rows)} if rows else streams


@dataclass(frozen=True, eq=False)
class ImageBatch(Movable):
    """Images and their classes; where an image has none, and for those that fill up a batch, it is IGNORED."""

    images: Images
    labels: Int[Tensor, "B"] | Float[Tensor, "B C"]  # the class of each image, or 1 for each of several
    sentences: int  # the real images
    tokens: int  # of the real images, class tokens included

    @property
    def inputs(self) -> Images:
        """What a classifier reads."""
        return self.images

    def labels_of_rows(self) -> list[list[int]]:
        """Return what each real row is to predict: its classes."""
        rows = self.labels[: self.sentences]
        return [row.nonzero().flatten().tolist() if row.dim() else [int(row)] for row in rows]


@dataclass(frozen=True)
class ImageCollator:
    """Makes batches of images for a network that reads patches of this size."""

    patch: int  # pixels on each side
    class_token: bool
    classes: int = 0  # the number of classes where an image has several labels, else 0
    pin: bool = False  # whether pixels are gathered in page-locked memory, without another copy

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> tuple[Counts]:
        """Return the tokens of some images."""
        sides = -(-_sizes(stores, indices) // self.patch)
        return (sides[:, 0] * sides[:, 1] + self.class_token,)

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> ImageBatch:
        """Make the batch of these images.

        In a static shape, black images of the same size fill it up; `multiple` is for tokens of texts.
        """
        sizes, (tokens,) = _sizes(stores, indices), self.costs(stores, indices)
        if static is not None:
            sizes = np.concatenate([sizes, np.repeat(sizes[-1:], static.sentences - len(sizes), axis=0)])
        labels = labels_of(stores, indices, len(sizes), self.classes)
        return ImageBatch(self._packed(stores, indices, sizes), labels, len(indices), int(tokens.sum()))

    def images(self, stores: Sequence[TokenStore], indices: Indices) -> Images:
        """Pack these images, whatever else their rows have."""
        return self._packed(stores, indices, _sizes(stores, indices))

    def _packed(self, stores: Sequence[TokenStore], indices: Indices, sizes: NDArray[np.int64]) -> Images:
        runs = runs_of([(int(height), int(width)) for height, width in sizes])
        lengths = np.array([run.tokens(self.patch, self.class_token) for run in runs for _ in range(run.images)])
        layout = layout_of(lengths.astype(np.int64), int(lengths.max(initial=0)))
        return Images(_pixels(stores, indices, sizes, self.pin), layout, runs)


class ImageFeed(RowFeed[ImageBatch]):
    """Training images of one or several weighted stores."""

    noun = "image"

    def placed(self, static: StaticShape | None, pin: bool) -> Self:
        """Return the feed for a device."""
        assert isinstance(self.collator, ImageCollator)
        pinned = replace(self.collator, pin=pin)
        return replace(self, collator=pinned, static=static, pin=pin)  # type: ignore[arg-type]  # its rows are images


def _sizes(stores: Sequence[TokenStore], indices: Indices) -> NDArray[np.int64]:
    """Return the height and width of some images."""
    sizes = np.empty((len(indices), 2), np.int64)
    for store, mine, own in rows_by_store(stores, indices):
        sizes[mine] = store.streams["size"].values[own]  # one item per row
    return sizes


def _pixels(stores: Sequence[TokenStore], indices: Indices, sizes: NDArray[np.int64], pin: bool) -> Tensor:
    """Return the pixels of some images end to end; sizes beyond theirs are those of black images after them."""
    ends = np.cumsum(sizes.prod(1))
    channels = channels_of(stores[0].streams["pixels"])
    made = torch.empty((int(ends[-1]) if len(ends) else 0, channels), dtype=torch.uint8, pin_memory=pin)
    pixels = made.numpy()
    for store, mine, own in rows_by_store(stores, indices):
        for place, values in zip(mine, rows_of_pixels(store.streams["pixels"], own), strict=True):
            pixels[ends[place] - len(values) : ends[place]] = values
    if len(indices) < len(sizes):
        pixels[ends[len(indices) - 1] :] = 0
    return made
