"""Rows of one length in the place of packed sentences: what graphs read, whose shapes must not depend on values."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from heedful.base.packed import Images, Layout, Run


@dataclass(frozen=True, eq=False)
class Rows(Layout):
    """Sentences that fill rows of one length, as packed tokens: padding too is a token, which no key shows.

    All that networks ask of a layout can be computed without looking at lengths, so that a graph holds for all of them.
    """

    keep: Bool[Tensor, "B L"]  # given here, and computed in other layouts

    @classmethod
    def of_mask(cls, keep: Bool[Tensor, "B L"]) -> "Rows":
        """Make the layout of rows in which these places are tokens."""
        sentences, length = keep.shape
        positions = torch.arange(length, device=keep.device).unsqueeze(0).expand(sentences, length).reshape(-1)
        offsets = torch.arange(sentences + 1, dtype=torch.int32, device=keep.device) * length
        return cls(offsets, positions, length, keep)

    @property
    def even(self) -> bool:
        """Rows have padding, which attention must hide, as far as a graph knows."""
        return False

    @property
    def gather(self) -> Int[Tensor, "B L"]:  # not cached: each graph has its own
        """The packed index of each padded element."""
        return self.scatter.unflatten(0, (self.sentences, self.bound))

    @property
    def scatter(self) -> Int[Tensor, "N"]:
        """The padded index of each packed token."""
        return torch.arange(self.tokens, device=self.offsets.device)


@dataclass(frozen=True, eq=False)
class SameSize(Images):
    """Images of one size."""

    stacked: Float[Tensor, "B Y X C"] | None = None

    @classmethod
    def of_pixels(cls, pixels_BYXC: Float[Tensor, "B Y X C"], patch: int, class_token: bool) -> "SameSize":
        """Make the images of these pixels, for a network that reads patches of this size."""
        count, height, width, _ = pixels_BYXC.shape
        tokens = Run(1, height, width).tokens(patch, class_token)
        layout = Rows.of_mask(torch.ones(count, tokens, dtype=torch.bool, device=pixels_BYXC.device))
        return cls(pixels_BYXC.flatten(0, 2), layout, (), pixels_BYXC)

    def by_run(self) -> Iterator[Shaped[Tensor, "B Y X C"]]:
        """Yield all images at once."""
        assert self.stacked is not None
        yield self.stacked
