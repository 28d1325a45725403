"""Batches of images with the questions about them, packed: `<s> question </s>`, cut where it is too long."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from heedful.base.packed import IGNORED, Images, Layout, Packed
from heedful.data.batch_layout import Lengths, StaticShape, layout_of
from heedful.data.batches.texts import kept_pieces
from heedful.data.collate import gather, places_of
from heedful.data.epochs.loader import RowFeed
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.images.batches import ImageCollator
from heedful.data.movable import Movable
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END

_MARKERS = 2  # of a question


@dataclass(frozen=True, eq=False)
class AskedImages(Movable):
    """What a network reads: images, and the words of the questions about them, those about one image together."""

    images: Images
    questions: Packed
    together: Layout  # the words of all questions about each image as one sequence
    owners: Int[Tensor, "Q"]  # number of the image that each question is about


@dataclass(frozen=True, eq=False)
class ImageQuestionBatch(Movable):
    """Images, questions about them, and the class of each answer; IGNORED where it is not known."""

    inputs: AskedImages
    labels: Int[Tensor, "Q"]
    sentences: int  # the number of questions
    tokens: int  # patches and words, markers included

    def labels_of_rows(self) -> list[list[int]]:
        """Return what is to be predicted for each question: its class."""
        return [[label] for label in self.labels.tolist()]


@dataclass(frozen=True)
class ImageQuestionCollator:
    """Makes batches of images with their questions; a row is an image.

    Its streams, besides those of the image: `words` of all questions, `lengths` of each of them, and `label`.
    """

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
        starts = np.cumsum(lengths) - lengths
        values = np.full(lengths.sum(), END, np.int64)
        values[starts] = BEGIN
        values[places_of(starts + 1, kept)] = words[kept_pieces(whole, kept, "end")]
        layout = layout_of(lengths, int(lengths.max()))
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


class ImageQuestionFeed(RowFeed[ImageQuestionBatch]):
    """Training images, with their questions, of one or several weighted stores."""

    noun = "image"
