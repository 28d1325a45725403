"""Batches of images to classify, packed, of one size or of several."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.packed import IGNORED, Images, Layout, Packed, runs_of
from heedful.data.batches.texts import LabelledBatch, kept_pieces, labels_of
from heedful.data.collate import (
    Lengths,
    Movable,
    StaticShape,
    gather,
    layout_of,
    marked_sequences,
    places_of,
    rows_by_store,
)
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.images.decoding import channels_of, rows_of_pixels
from heedful.data.token_store import TokenStore


@dataclass(frozen=True, eq=False)
class AskedImages(Movable):
    """What a network reads: images, and the words of the questions about them, those about one image together."""

    images: Images
    questions: Packed
    together: Layout  # the words of all questions about each image as one sequence
    owners: Int[Tensor, "Q"]  # number of the image that each question is about


ImageBatch = LabelledBatch[Images]
ImageQuestionBatch = LabelledBatch[AskedImages]


@dataclass(frozen=True)
class ImageCollator:
    """Makes batches of images for a network that reads patches of this size."""

    noun: ClassVar = "image"

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
        return ImageBatch(self.images(stores, indices, sizes), labels, len(indices), int(tokens.sum()))

    def images(self, stores: Sequence[TokenStore], indices: Indices, sizes: NDArray[np.int64] | None = None) -> Images:
        """Pack these images, whatever else their rows have; `sizes` beyond theirs are those of black images."""
        sizes = _sizes(stores, indices) if sizes is None else sizes
        runs = runs_of([(int(height), int(width)) for height, width in sizes])
        lengths = np.array([run.tokens(self.patch, self.class_token) for run in runs for _ in range(run.images)])
        layout = layout_of(lengths.astype(np.int64), int(lengths.max(initial=0)))
        return Images(_pixels(stores, indices, sizes, self.pin), layout, runs)


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


# --- questions about images ---


_MARKERS = 2  # of a question


@dataclass(frozen=True)
class ImageQuestionCollator:
    """Makes batches of images with their questions; a row is an image.

    Its streams, besides those of the image: `words` of all questions, `lengths` of each of them, and `label`.
    """

    noun: ClassVar = "image"

    images: ImageCollator
    max_length: int  # the most tokens of a question, markers included
    classes: int  # a greater number is an answer that is not among the classes

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> tuple[Counts]:
        """Return the tokens of some rows: patches, and words as they are read, markers included."""
        lengths, asked = gather(stores, "lengths", indices)
        read = np.concatenate([[0], np.cumsum(self._kept(lengths) + _MARKERS)])
        ends = np.cumsum(asked)
        return (self.images.costs(stores, indices)[0] + read[ends] - read[ends - asked],)

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> ImageQuestionBatch:
        """Make the batch of these images, ragged whatever shape is asked for."""
        whole, asked = gather(stores, "lengths", indices)
        kept = self._kept(whole)
        lengths = kept + _MARKERS
        words, _ = gather(stores, "words", indices)
        layout, starts, values = marked_sequences(lengths, None, 1)
        values[places_of(starts + 1, kept)] = words[kept_pieces(whole, kept, "end")]
        owners = np.repeat(np.arange(len(indices)), asked)
        by_image = np.bincount(owners, lengths, len(indices)).astype(np.int64)
        inputs = AskedImages(
            self.images.images(stores, indices),
            Packed(torch.from_numpy(values), layout),
            layout_of(by_image, int(by_image.max())),
            torch.from_numpy(owners),
        )
        labels = self._labels(stores, indices, len(owners))
        return ImageQuestionBatch(inputs, labels, len(owners), inputs.images.layout.tokens + layout.tokens)

    def _kept(self, lengths: Lengths) -> Lengths:
        return np.minimum(lengths, self.max_length - _MARKERS)

    def _labels(self, stores: Sequence[TokenStore], indices: Indices, count: int) -> Tensor:
        if "label" not in stores[0].streams:
            return torch.full((count,), IGNORED)
        labels, _ = gather(stores, "label", indices)
        return torch.from_numpy(np.where(labels < self.classes, labels, IGNORED))
