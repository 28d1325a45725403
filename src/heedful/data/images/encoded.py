"""Images that stay as their files are: too many to be stored decoded, they are decoded whenever they are shown."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from heedful.base.cores import usable_cores
from heedful.config.data import ImageForm
from heedful.data.images.decoding import Channels, Pixels, decode_image, fit_image
from heedful.data.token_store import Ragged, Values


@dataclass(frozen=True, eq=False)
class EncodedPixels(Ragged):
    """A stream of pixels whose rows are decoded from the bytes of their files; `values` holds these bytes."""

    form: ImageForm
    channels: Channels

    def __getitem__(self, index: int) -> Values:
        data = super().__getitem__(index).tobytes()
        return decode_in_form(data, f"image {index + 1:,} in the cache", self.form, self.channels).reshape(
            -1, self.channels
        )

    def decoded(self, rows: NDArray[np.int64]) -> Iterator[Values]:
        """Yield the pixels of some rows in order; all cores decode."""
        return _threads().map(self.__getitem__, rows.tolist())


def rows_of_pixels(stream: Ragged, rows: NDArray[np.int64]) -> Iterator[Values]:
    """Yield the pixels of some images in order, stored decoded or not."""
    return stream.decoded(rows) if isinstance(stream, EncodedPixels) else (stream[row] for row in rows)


def channels_of(stream: Ragged) -> int:
    """Return the number of values of a pixel."""
    return stream.channels if isinstance(stream, EncodedPixels) else stream.values.shape[1]


def decode_in_form(data: bytes, name: str, form: ImageForm, channels: Channels) -> Pixels:
    """Decode an image to the size that a model reads; `name` is for messages."""
    pixels = decode_image(data, name, channels, form.max_pixels)
    return pixels if form.size is None else fit_image(pixels, form.size, form.fit)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores(), "heedful-decoding")  # decoding is outside of Python's lock
