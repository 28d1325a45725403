"""Explanations as one SVG: a matrix with its words, and below it every layer and head."""

import html
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from heedful.errors import UserError
from heedful.tasks.shared.explaining.explanation import Array, AttentionWeights, Explanation, TokenSequence

_FAMILY: Final = "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, Liberation Sans, sans-serif"
_SCALE: Final = ((252, 252, 251), (214, 223, 247), (152, 173, 233), (84, 110, 207), (41, 58, 143), (20, 27, 77))
_CELL: Final = 26  # of the matrix with words
_LETTER: Final = 7.4  # mean width of a letter, at 13 pixels
_PANEL: Final = 92  # of a layer and head
_LEAST: Final = 0.004  # share of the greatest weight that is drawn
_MOST_WORDS: Final = 120


def attention_svg(found: Explanation) -> str:
    """Return a picture of attention over the source, or of the first kind that there is."""
    if not found.attentions:
        raise UserError("This model has no attention: there are no weights to draw. --json has its probabilities.")
    one = next((one for one in found.attentions if one.kind == "cross"), found.attentions[0])
    rows, columns = found.sequences[one.queries], found.sequences[one.keys]
    if max(len(rows.texts), len(columns.texts)) > _MOST_WORDS:
        raise UserError(
            f"The text has {max(len(rows.texts), len(columns.texts)):,} words, but a picture shows at most "
            f"{_MOST_WORDS}: leave out --svg, or shorten the text."
        )
    matrix = found.alignment if found.alignment is not None and one.kind == "cross" else one.head_means()[-1]
    left = 16 + _LETTER * max(map(len, rows.texts))
    top = 46 + 0.82 * _LETTER * max(map(len, columns.texts))
    words = by_words(matrix, rows, columns)
    title = "Alignment" if found.alignment is not None and one.kind == "cross" else f"{one.kind}, mean over heads"
    parts = [
        f'<text x="16" y="24" font-size="15" font-weight="600">{html.escape(title)}</text>',
        *_labels(rows.texts, columns.texts, left, top),
        *_cells(words, left, top, _CELL, _CELL),
        *(_dots(words, left, top) if one.kind == "cross" else ()),
    ]
    below = top + _CELL * len(rows.texts) + 46
    parts += [*_panels(one, below)]
    width = max(
        left + _CELL * len(columns.texts) + 0.6 * _LETTER * len(columns.texts[-1]) + 16, 16 + one.heads * (_PANEL + 14)
    )
    height = below + one.layers * (_PANEL + 30)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{_FAMILY}" font-size="13" fill="#1d2433" role="img">'
        f"<title>{html.escape(f'{title}: {found.text} {found.output}'.strip())}</title>"
        f'<rect width="100%" height="100%" fill="#fcfcfb"/>{"".join(parts)}</svg>\n'
    )


def by_words(matrix: Array, rows: TokenSequence, columns: TokenSequence) -> Array:
    """Return weights between words: the sum over the pieces of a key, the mean over the pieces of a query."""
    found = np.zeros((len(rows.texts), len(columns.texts)), np.float32)
    counts = np.bincount(rows.words, minlength=len(rows.texts))[:, None]
    np.add.at(found, (np.array(rows.words)[:, None], np.array(columns.words)[None]), matrix)
    return (found / counts).astype(np.float32)


def colour_of(share: float) -> str:
    """Return the colour of a share from 0 to 1: one hue, whose lightness carries the value."""
    place = min(max(share, 0.0), 1.0) * (len(_SCALE) - 1)
    low = min(int(place), len(_SCALE) - 2)
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(_SCALE[low], _SCALE[low + 1], strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _labels(rows: Sequence[str], columns: Sequence[str], left: float, top: float) -> Iterator[str]:
    for index, label in enumerate(rows):
        y = top + (index + 0.5) * _CELL
        place = f'x="{left - 7:.1f}" y="{y:.1f}" text-anchor="end" dominant-baseline="central"'
        yield f"<text {place}>{html.escape(label)}</text>"
    for index, label in enumerate(columns):
        x = left + (index + 0.5) * _CELL
        yield f'<text transform="translate({x:.1f} {top - 8:.1f}) rotate(-55)">{html.escape(label)}</text>'


def _cells(matrix: Array, left: float, top: float, width: float, height: float) -> Iterator[str]:
    most = max(float(matrix.max(initial=0)), 1e-6)
    rows, columns = matrix.shape
    for row, column in zip(*np.nonzero(matrix > _LEAST * most), strict=True):
        x, y, value = left + column * width, top + row * height, float(matrix[row, column])
        yield (
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{colour_of(value / most)}">'
            f"<title>{value:.4f}</title></rect>"
        )
    yield (
        f'<rect x="{left:.2f}" y="{top:.2f}" width="{columns * width:.2f}" height="{rows * height:.2f}" fill="none" '
        'stroke="#d0d5dd"/>'
    )


def _dots(matrix: Array, left: float, top: float) -> Iterator[str]:
    for row, column in enumerate(matrix.argmax(axis=1).tolist()):
        x, y = left + (column + 0.5) * _CELL, top + (row + 0.5) * _CELL
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4" fill="#c2640c"/>'


def _panels(one: AttentionWeights, top: float) -> Iterator[str]:
    for layer in range(one.layers):
        for head in range(one.heads):
            x, y = 16 + head * (_PANEL + 14), top + layer * (_PANEL + 30)
            name = f"Layer {layer + 1}, head {head + 1}"
            yield f'<text x="{x}" y="{y - 6:.1f}" font-size="11" fill="#5c6679">{name}</text>'
            matrix = one.weights[layer, head]
            yield from _cells(matrix, x, y, _PANEL / matrix.shape[1], _PANEL / matrix.shape[0])
