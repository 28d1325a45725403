"""The packed batch: sentences or images concatenated, with offsets. Models work without padding.

Shape letters of the whole project:

    N  packed tokens of a batch (M: other side)    B  sentences            L  longest sentence of a padded view
    E  model width    F  inner width    H  heads   D  head width           V  vocabulary size
    K  beams per sentence                          R  decoder rows (B * K) T  steps decoded so far
    Y  rows of pixels    X  columns of pixels      C  channels, or classes P  pixels of a batch
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Final, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

IGNORED: Final = (
    -100
)  # the label of a token that does not count in a loss: the value that torch's cross-entropy ignores


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each sentence of packed values starts: all that attention and recurrence need besides the values.

    `bound` is an upper bound on the length of the longest sentence, known without a device synchronization.
    """

    offsets: Int[Tensor, "B_plus_1"]
    positions: Int[Tensor, "N"]
    bound: int

    @classmethod
    def of(cls, lengths: Sequence[int]) -> "Layout":
        """Make the layout of sentences of these lengths."""
        sizes = torch.tensor(lengths, dtype=torch.int64)
        offsets = torch.zeros(len(lengths) + 1, dtype=torch.int32)
        offsets[1:] = sizes.cumsum(0)
        positions = torch.arange(int(offsets[-1])) - torch.repeat_interleave(offsets[:-1].long(), sizes)
        return cls(offsets, positions, max(lengths, default=0))

    @property
    def sentences(self) -> int:
        """The number of sentences."""
        return self.offsets.shape[0] - 1

    @property
    def tokens(self) -> int:
        """The number of tokens in all sentences."""
        return self.positions.shape[0]

    @property
    def even(self) -> bool:
        """Whether every sentence is exactly as long as the bound, so that a padded view is a plain reshape."""
        return self.tokens == self.sentences * self.bound

    @cached_property
    def lengths(self) -> Int[Tensor, "B"]:
        """The length of each sentence."""
        return self.offsets.diff()

    @cached_property
    def keep(self) -> Bool[Tensor, "B L"]:
        """True where the padded view holds a token."""
        return torch.arange(self.bound, device=self.offsets.device) < self.lengths.unsqueeze(1)

    @cached_property
    def gather(self) -> Int[Tensor, "B L"]:
        """The packed index of each padded element; an arbitrary valid index where there is no token."""
        place = self.offsets[:-1].unsqueeze(1).long() + torch.arange(self.bound, device=self.offsets.device)
        return place.clamp(max=self.tokens - 1)

    @cached_property
    def scatter(self) -> Int[Tensor, "N"]:
        """The padded (row-major) index of each packed token."""
        sentence = torch.searchsorted(
            self.offsets[1:], torch.arange(self.tokens, device=self.offsets.device, dtype=torch.int32), right=True
        )
        return sentence * self.bound + self.positions

    def forget(self) -> None:
        """Drop the cached values that were computed from the offsets, after these have been overwritten."""
        for name in ("lengths", "keep", "gather", "scatter"):
            self.__dict__.pop(name, None)

    def to(self, device: torch.device, non_blocking: bool = False) -> "Layout":
        """Copy to a device."""
        return Layout(
            self.offsets.to(device, non_blocking=non_blocking),
            self.positions.to(device, non_blocking=non_blocking),
            self.bound,
        )


@dataclass(frozen=True, eq=False)
class Packed:
    """The values of concatenated sentences: token ids, or vectors such as hidden states and image patches."""

    values: Shaped[Tensor, "N ..."]
    layout: Layout
    segments: Int[Tensor, "N"] | None = None
    letters: "Packed | None" = None  # the letters of each token, where a model reads them
    added: Float[Tensor, "N E"] | None = None  # what is added to the embeddings of token ids

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> "Packed":
        """Pack sentences of token ids."""
        flat = [token for sentence in sentences for token in sentence]
        return cls(torch.tensor(flat, dtype=torch.int64), Layout.of([len(sentence) for sentence in sentences]))

    @classmethod
    def join(cls, sentences: Sequence[Shaped[Tensor, "..."]]) -> "Packed":
        """Pack sentences given as one tensor each: token ids, or one vector per row."""
        return cls(torch.cat(list(sentences)), Layout.of([len(sentence) for sentence in sentences]))

    def with_values(self, values: Shaped[Tensor, "N ..."]) -> "Packed":
        """Return the same sentences with other values."""
        return replace(self, values=values, letters=None, added=None)

    def to(self, device: torch.device, non_blocking: bool = False) -> "Packed":
        """Copy to a device."""
        segments, added = (
            None if part is None else part.to(device, non_blocking=non_blocking) for part in (self.segments, self.added)
        )
        letters = None if self.letters is None else self.letters.to(device, non_blocking)
        values = self.values.to(device, non_blocking=non_blocking)
        return Packed(values, self.layout.to(device, non_blocking), segments, letters, added)

    def split(self) -> list[Tensor]:
        """Return the values of each sentence; waits for the device to know the lengths."""
        return list(self.values.split(self.layout.lengths.tolist()))


@dataclass(frozen=True, eq=False)
class Nested:
    """The words of all sentences, packed, and the layout of these sentences in documents.

    The "tokens" of the second layout are sentences, and its "sentences" are documents. Either may be empty.
    """

    words: Packed
    sentences: Layout

    def __post_init__(self) -> None:
        if self.words.layout.sentences != self.sentences.tokens:
            raise ValueError(
                f"words of {self.words.layout.sentences} sentences, but documents of {self.sentences.tokens}: "
                "both must have the same sentences"
            )

    @classmethod
    def of(cls, documents: Sequence[Sequence[Sequence[int]]]) -> "Nested":
        """Pack documents of sentences of token ids."""
        return cls(
            Packed.of([sentence for document in documents for sentence in document]),
            Layout.of([len(document) for document in documents]),
        )

    def to(self, device: torch.device, non_blocking: bool = False) -> "Nested":
        """Copy to a device."""
        return Nested(self.words.to(device, non_blocking), self.sentences.to(device, non_blocking))


class Run(NamedTuple):
    """Consecutive images of one size."""

    images: int
    height: int
    width: int

    def tokens(self, patch: int, class_token: bool) -> int:
        """Return the number of tokens of one image, in patches of this number of pixels on each side."""
        return -(-self.height // patch) * -(-self.width // patch) + class_token


@dataclass(frozen=True, eq=False)
class Images:
    """Concatenated images of any sizes, row by row of pixels, and the layout of the tokens that a network makes.

    Consecutive images of one size are computed together; `runs` tells which, without a device synchronization.
    """

    pixels: Shaped[Tensor, "P C"]  # from 0 to 255
    layout: Layout
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, images: Sequence[Shaped[Tensor, "_ _ C"]], patch: int, class_token: bool) -> "Images":
        """Pack images of rows x columns x channels for a network that reads patches of this size."""
        runs = runs_of([(image.shape[0], image.shape[1]) for image in images])
        lengths = [run.tokens(patch, class_token) for run in runs for _ in range(run.images)]
        return cls(torch.cat([image.flatten(0, 1) for image in images]), Layout.of(lengths), runs)

    def __len__(self) -> int:
        return sum(run.images for run in self.runs)

    def by_run(self) -> Iterator[Shaped[Tensor, "B Y X C"]]:
        """Yield the images of each run."""
        sizes = [run.images * run.height * run.width for run in self.runs]
        for run, pixels in zip(self.runs, self.pixels.split(sizes), strict=True):
            yield pixels.view(run.images, run.height, run.width, -1)

    def with_pixels(self, pixels: Shaped[Tensor, "P C"]) -> "Images":
        """Return images of the same sizes with other pixels."""
        return replace(self, pixels=pixels)

    def to(self, device: torch.device, non_blocking: bool = False) -> "Images":
        """Copy to a device."""
        pixels = self.pixels.to(device, non_blocking=non_blocking)
        return Images(pixels, self.layout.to(device, non_blocking), self.runs)


def runs_of(sizes: Sequence[tuple[int, int]]) -> tuple[Run, ...]:
    """Group consecutive images of the same height and width."""
    return tuple(Run(len([*group]), *size) for size, group in groupby(sizes))
