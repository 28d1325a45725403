"""A map of texts: their vectors, projected onto the two directions in which they differ most.

    X - mean = U S V^T,  positions = (X - mean) V_2      principal components: Pearson 1901

Texts that are close on the map are close in these two directions alone; the share of the variance that they carry says
how much of the distances the map shows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import UserError
from heedful.pages.charts.colours import paint
from heedful.pages.charts.drawing import escape, heading, image, label, number, text_width
from heedful.pages.html import write_page

_SIDE, _EDGE, _LONGEST = 560, 48, 40  # pixels, pixels, letters


class VectorMap(NamedTuple):
    """Positions of texts on a map."""

    positions: NDArray[np.float64]  # texts x 2
    shares: tuple[float, float]  # of the variance, along each axis


def map_vectors(vectors: NDArray[np.float32]) -> VectorMap:
    """Return the first two principal components of vectors, one per row. An axis points where its greatest entry is."""
    if len(vectors) < 3:
        raise UserError(f"A map needs at least 3 texts, but there are {len(vectors)}: give more.")
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    if sizes.size < 2 or not sizes[0]:
        raise UserError("The vectors of all texts are equal: there is nothing to map.")
    axes = directions[:2] * np.sign(directions[np.arange(2), np.abs(directions[:2]).argmax(axis=1)])[:, None]
    shares = sizes[:2] ** 2 / (sizes**2).sum()
    return VectorMap(centred @ axes.T, (float(shares[0]), float(shares[1])))


def map_svg(found: VectorMap, texts: Sequence[str]) -> str:
    """Return the map: a dot per text, with its beginning next to it."""
    low, high = found.positions.min(axis=0), found.positions.max(axis=0)
    reach = float((high - low).max()) or 1.0
    shift = (reach - (high - low)) / 2
    width = 2 * _EDGE + _SIDE + text_width("m" * 12)
    frame = f'<rect x="16" y="40" width="{number(width - 32)}" height="{2 * _EDGE + _SIDE - 36}" rx="6" fill="none" '
    parts = [heading("Map of texts"), f"{frame}{paint('rule', 'stroke')}/>"]
    for number_, (text, place) in enumerate(zip(texts, found.positions, strict=True), start=1):
        x, y = _EDGE + _SIDE * (place - low + shift) / reach
        y = _EDGE + _SIDE - y + _EDGE  # the second axis points upwards
        short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
        at_right = x + 10 + text_width(short, 12) > width
        parts.append(
            f"<g><title>{escape(f'{number_}: {text}')}</title>"
            f'<circle cx="{number(x)}" cy="{number(y)}" r="4" {paint("accent")}/>'
            f"{label(x - 8 if at_right else x + 8, y + 4, short, anchor='end' if at_right else 'start', size=12)}</g>"
        )
    first, second = (f"{100 * share:.0f}% of the variance" for share in found.shares)
    parts.append(label(_EDGE, 2 * _EDGE + _SIDE + 26, f"across: {first}; up: {second}", role="soft", size=12))
    return image(width, 3 * _EDGE + _SIDE, f"Map of {len(texts)} texts", parts)


def map_page(found: VectorMap, texts: Sequence[str], model: str) -> str:
    """Return the map as a page; the model has this name."""
    note = (
        "Each dot is the vector of a text, projected onto the two directions in which the texts differ most (principal "
        "components, by a singular value decomposition). Distances in all other directions are not seen."
    )
    drawing = {"name": "map", "title": "Map", "note": note, "svg": map_svg(found, texts)}
    lead = f"{model}: the vectors of {len(texts)} texts. Point at a dot to read its text."
    return write_page("How a model sees texts", lead, "map.js", {"drawings": [drawing]})
