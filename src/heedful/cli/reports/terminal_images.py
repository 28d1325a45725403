"""Small images on a terminal: every character shows two pixels, the upper one and the lower one."""

from collections.abc import Iterator
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

_BESIDE = "   "  # between two images


def image_lines(pixels: NDArray[np.uint8], size: int) -> list[str]:
    """Return a square image, reduced to size x size pixels, as lines of coloured half blocks."""
    places = (np.arange(size) + 0.5) * len(pixels) / size
    small = pixels[np.ix_(places.astype(int), places.astype(int))].tolist()
    return ["".join(_two_pixels(*pair) for pair in zip(*rows, strict=True)) + "\x1b[0m" for rows in _pairs(small)]


def beside_each_other(columns: list[list[str]], width: int) -> list[str]:
    """Return blocks of lines next to each other; each block is shown `width` characters wide."""
    return [
        _BESIDE.join(part if part else " " * width for part in parts).rstrip()
        for parts in zip_longest(*columns, fillvalue="")
    ]


def _pairs(rows: list[list[list[int]]]) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
    return zip(rows[::2], rows[1::2], strict=False)


def _two_pixels(upper: list[int], lower: list[int]) -> str:
    front, back = (";".join(map(str, colour)) for colour in (upper, lower))
    return f"\x1b[38;2;{front}m\x1b[48;2;{back}m▀"
