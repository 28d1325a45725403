"""Explanations as one SVG: a matrix with its words, and below it every layer and head; maps of texts."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import UserError
from heedful.explain.explanation import Array, Explanation, TokenSequence
from heedful.pages.charts.drawing import escape, heading, image, label, number, paint, text_width
from heedful.pages.charts.heat_maps import cells, mark_cells, name_sides
from heedful.pages.html import write_page

_CELL: Final = 26  # of the matrix with words
_LETTER: Final = 7.4  # mean width of a letter, at 13 pixels
_PANEL: Final = 92  # of a layer and head
_MOST_WORDS: Final = 120


def attention_svg(found: Explanation) -> str:
    """Return an image of attention over the source, or of the first kind that there is."""
    if not found.attentions:
        raise UserError("This model has no attention: there are no weights to draw. --json has its probabilities.")
    one = next((one for one in found.attentions if one.kind == "cross"), found.attentions[0])
    rows, columns = found.sequences[one.queries], found.sequences[one.keys]
    if max(len(rows.texts), len(columns.texts)) > _MOST_WORDS:
        raise UserError(
            f"The text has {max(len(rows.texts), len(columns.texts)):,} words, but an image shows at most "
            f"{_MOST_WORDS}: leave out --svg, or shorten the text."
        )
    matrix = found.alignment if found.alignment is not None and one.kind == "cross" else one.head_means()[-1]
    left = 16 + _LETTER * max(map(len, rows.texts))
    top = 46 + 0.82 * _LETTER * max(map(len, columns.texts))
    words = by_words(matrix, rows, columns)
    title = "Alignment" if found.alignment is not None and one.kind == "cross" else f"{one.kind}, mean over heads"
    parts = [
        heading(title),
        *name_sides(rows.texts, columns.texts, left, top, _CELL, _CELL),
        *cells(words, left, top, _CELL, _CELL),
    ]
    if one.kind == "cross":
        parts += mark_cells(list(enumerate(words.argmax(axis=1).tolist())), left, top, _CELL, _CELL)
    below = top + _CELL * len(rows.texts) + 46
    for layer in range(one.layers):
        for head in range(one.heads):
            x, y = 16 + head * (_PANEL + 14), below + layer * (_PANEL + 30)
            parts.append(label(x, y - 6, f"Layer {layer + 1}, head {head + 1}", role="soft", size=11))
            drawn = one.weights[layer, head]
            parts += cells(drawn, x, y, _PANEL / drawn.shape[1], _PANEL / drawn.shape[0])
    width = max(
        left + _CELL * len(columns.texts) + 0.6 * _LETTER * len(columns.texts[-1]) + 16, 16 + one.heads * (_PANEL + 14)
    )
    height = below + one.layers * (_PANEL + 30)
    return image(width, height, f"{title}: {found.text} {found.output}".strip(), parts)


def by_words(matrix: Array, rows: TokenSequence, columns: TokenSequence) -> Array:
    """Return weights between words: the sum over the pieces of a key, the mean over the pieces of a query."""
    found = np.zeros((len(rows.texts), len(columns.texts)), np.float32)
    counts = np.bincount(rows.words, minlength=len(rows.texts))[:, None]
    np.add.at(found, (np.array(rows.words)[:, None], np.array(columns.words)[None]), matrix)
    return (found / counts).astype(np.float32)


# --- a map of texts: their vectors, projected onto the two directions in which they differ most -----------------------
#
#     X - mean = U S V^T,  positions = (X - mean) V_2      principal components: Pearson 1901
#
# Texts that are close on the map are close in these two directions alone; the share of the variance that they carry
# says how much of the distances the map shows.


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
