"""Batches of images with a caption each: packed images, packed decoder input, and the tokens to predict."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from torch import Tensor

from heedful.base.packed import IGNORED, Images, Packed
from heedful.data.batch_layout import StaticShape, layouts
from heedful.data.batches.pairs import with_marker
from heedful.data.collate import gather, lengths_of, rows_by_store
from heedful.data.epochs.loader import RowFeed
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.images.batches import ImageCollator
from heedful.data.images.caption_stores import CaptionStore
from heedful.data.movable import Movable
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END


@dataclass(frozen=True, eq=False)
class CaptionBatch(Movable):
    """Images with a caption each: decoder inputs begin with `<s>`, labels end with `</s>`."""

    images: Images
    target: Packed
    labels: Int[Tensor, "N"]
    sentences: int  # the real ones
    target_tokens: int  # the labels that count

    def labels_of_rows(self) -> list[list[int]]:
        """Return what each real row is to predict: the tokens of the caption."""
        return [row.tolist() for row in self.target.with_values(self.labels).split()[: self.sentences]]


@dataclass(frozen=True)
class CaptionCollator:
    """Makes batches of captions with their images."""

    images: ImageCollator

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> tuple[Counts, Counts]:
        """Return the tokens of some captions, end markers included, and the patches of their images."""
        (patches,) = self.images.costs(*_images(stores, indices))
        return lengths_of(stores, "text", indices) + 1, patches

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> CaptionBatch:
        """Make the batch of these rows, always ragged: nothing fills it up."""
        tokens, lengths = gather(stores, "text", indices)
        lengths = lengths + 1
        (layout,) = layouts([lengths], None, 1)
        shown = self.images.batch(*_images(stores, indices))
        return CaptionBatch(
            shown.images,
            Packed(with_marker(tokens, lengths, layout.tokens, marker=BEGIN, at_end=False), layout),
            with_marker(tokens, lengths, layout.tokens, marker=END, at_end=True, rest=IGNORED),
            sentences=len(indices),
            target_tokens=int(lengths.sum()),
        )


class CaptionFeed(RowFeed[CaptionBatch]):
    """Training captions of one or several weighted stores."""

    noun = "caption"


def _images(stores: Sequence[TokenStore], indices: Indices) -> tuple[list[TokenStore], Indices]:
    """Return the stores of the images, and the rows of those that belong to some captions."""
    held = [store.images for store in stores if isinstance(store, CaptionStore)]
    assert len(held) == len(stores), "stores without images"
    firsts = np.cumsum([0, *map(len, held)])
    rows = np.empty(len(indices), np.int64)
    for first, (store, mine, own) in zip(firsts, rows_by_store(stores, indices), strict=False):
        rows[mine] = first + store.streams["picture"].values[own].astype(np.int64)  # one number per row
    return held, rows
