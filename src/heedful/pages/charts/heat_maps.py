"""Heat maps: a matrix as coloured cells, with names or numbers along its sides."""

import base64
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from heedful.pages.charts.axes import Axis, tick_label, upright, x_axis
from heedful.pages.charts.drawing import (
    MISSING,
    channels_of,
    colour_of,
    heading,
    image,
    label,
    number,
    paint,
    shape,
    text_width,
    tip,
)

Values = NDArray[np.floating[Any]]
_DRAWN_CELLS: Final = 6_000  # more become the pixels of one image
_LEAST: Final = 0.004  # share of the greatest value that is drawn
_BAR: Final = 14  # width of the scale at the right


def heat_map(
    values: Values | Sequence[Sequence[float]],
    *,
    title: str,
    x_label: str = "",
    y_label: str = "",
    row_names: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
    dots: Sequence[tuple[int, int]] = (),
    description: str = "",
    width: float = 720,
    height: float | None = None,
) -> str:
    """Return a matrix as SVG: its first row at the top. Values below 0 have another hue, and missing ones are grey.

    Names stand along the sides where they are given, numbers elsewhere; `dots` marks cells by (row, column).
    """
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"a heat map is of a matrix, but the values have {matrix.ndim} dimensions")
    rows, columns = matrix.shape
    shown = matrix[np.isfinite(matrix)]
    least, most = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 1.0)
    reach = max(abs(least), abs(most)) or 1.0
    left = 24 + (18 if y_label else 0) + max(map(text_width, row_names), default=0) if row_names else 76.0
    top = 48.0 + (0.82 * max(map(text_width, column_names), default=0) if column_names else 0)
    scale = 30 + max(text_width(tick_label(edge), 11) for edge in (reach, -reach if least < 0 else 0.0)) + _BAR
    right = width - scale
    cell = (right - left) / max(columns, 1)
    if row_names:
        cell = min(cell, 34.0)
    below = 16.0 + (0 if column_names else 20) + (20 if x_label else 0)
    tall = rows * cell if height is None and row_names else (height or 400) - top - below
    wide, across = cell * columns, tall / max(rows, 1)
    parts = [
        heading(title),
        *cells(matrix, left, top, cell, across, reach),
        *mark_cells(dots, left, top, cell, across),
        *name_sides(row_names or (), column_names or (), left, top, cell, across),
    ]
    if column_names is None and columns:  # numbers where there are no names, at round ones
        parts.append(x_axis(Axis(0, columns, left, left + wide), top + tall, x_label))
    if row_names is None and rows:
        axis = Axis(0, rows, top, top + tall)
        places = [(axis.at(tick) + 4, tick_label(tick)) for tick in axis.ticks()]
        parts += [label(left - 8, y, said, anchor="end", role="soft", size=12) for y, said in places]
    parts += _scale(left + wide + 16, top, max(min(tall, 180), 40), least, reach)
    if x_label and column_names:
        parts.append(label(left + wide / 2, top + tall + 24, x_label, anchor="middle", role="soft", size=12))
    parts.append(upright(top + tall / 2, y_label))
    said = description or f"{rows} rows x {columns} columns, values from {least:.4g} to {most:.4g}."
    whole = max(left + wide + scale, 40 + text_width(title, 15))
    return image(whole, top + tall + below + 8, title or "Heat map", parts, said)


def cells(
    matrix: Values, left: float, top: float, width: float, height: float, reach: float | None = None
) -> Iterator[str]:
    """Yield the cells of a matrix, each this wide and high, and their frame; `reach` has the darkest colour."""
    rows, columns = matrix.shape
    if reach is None:
        reach = max(float(np.abs(matrix[np.isfinite(matrix)]).max(initial=0)), 1e-6)
    shares, whole = matrix / reach, {"x": left, "y": top, "width": columns * width, "height": rows * height}
    if matrix.size > _DRAWN_CELLS:
        inner = shape("image", f'preserveAspectRatio="none" href="{image_of_shares(shares)}"', **whole)
    else:
        inner = "".join(_rectangles(matrix, shares, left, top, width, height))
    yield f'<g style="filter:var(--heat-filter,none)">{inner}</g>'
    yield shape("rect", 'fill="none" stroke="#d0d5dd" style="stroke:var(--rule,#d0d5dd)"', **whole)


def _rectangles(matrix: Values, shares: Values, left: float, top: float, width: float, height: float) -> Iterator[str]:
    for row, column in zip(*np.nonzero(~(np.abs(shares) <= _LEAST)), strict=True):
        value = float(matrix[row, column])
        colour = colour_of(float(shares[row, column])) if math.isfinite(value) else MISSING
        said = f"{value:.4f}" if abs(value) < 1000 else f"{value:.4g}"
        place = {"x": left + column * width, "y": top + row * height, "width": width, "height": height}
        yield shape("rect", f'fill="{colour}"', tip(said), **place)


def name_sides(
    rows: Sequence[str], columns: Sequence[str], left: float, top: float, width: float, height: float
) -> Iterator[str]:
    """Yield the names of rows, at the left of their cells, and those of columns, slanted above them."""
    for index, name in enumerate(rows):
        yield label(left - 7, top + (index + 0.5) * height, name, anchor="end", more=' dominant-baseline="central"')
    for index, name in enumerate(columns):
        turn = f' transform="translate({number(left + (index + 0.5) * width)} {number(top - 8)}) rotate(-55)"'
        yield label(0, 0, name, more=turn)


def mark_cells(
    places: Sequence[tuple[int, int]], left: float, top: float, width: float, height: float
) -> Iterator[str]:
    """Yield a dot in each of some cells, by (row, column)."""
    for row, column in places:
        yield shape("circle", paint("doubt"), cx=left + (column + 0.5) * width, cy=top + (row + 0.5) * height, r=3.4)


def _scale(x: float, y: float, height: float, least: float, reach: float) -> Iterator[str]:
    """Yield the scale: the colours from the greatest value down to 0, or down to the least one."""
    low = -1.0 if least < 0 else 0.0
    steps = 40
    bars = ""
    for index in range(steps):
        colour = colour_of(1 - (1 - low) * (index + 0.5) / steps)
        place = {"x": x, "y": y + index * height / steps, "width": _BAR, "height": height / steps + 0.3}
        bars += shape("rect", f'fill="{colour}"', **place)
    yield f'<g style="filter:var(--heat-filter,none)">{bars}</g>'
    for edge, level in ((reach, y + 9), (low * reach, y + height)):
        yield label(x + _BAR + 5, level, tick_label(float(f"{edge:.3g}")), role="soft", size=11)


# --- many small cells as one image within an SVG: a PNG of 256 colours, which every browser draws ---------------------


_MIDDLE = 127  # code of 0; 0 is -1 and 254 is 1; 255 is not a number


def image_of_shares(shares: NDArray[np.floating[Any]]) -> str:
    """Return the address of an image whose pixels are the colours of shares from -1 to 1: rows x columns."""
    known = np.where(np.isfinite(shares), shares, 0)
    codes = np.round(_MIDDLE + _MIDDLE * np.clip(known, -1, 1)).astype(np.uint8)
    codes[~np.isfinite(shares)] = 255
    palette = bytes(channel for code in range(255) for channel in channels_of(code / _MIDDLE - 1))
    png = _png(codes, palette + bytes.fromhex(MISSING[1:]))
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _png(codes: NDArray[np.uint8], palette: bytes) -> bytes:
    """Return a PNG of palette indices, each row stored as it is."""
    height, width = codes.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), codes], axis=1)  # 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
