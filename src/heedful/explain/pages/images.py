"""Explanations as one SVG: a matrix with its words, and below it every layer and head."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from heedful.base.errors import UserError
from heedful.explain.explanation import Array, AttentionWeights, Explanation, TokenSequence
from heedful.pages.charts.drawing import heading, image, label
from heedful.pages.charts.heat_maps import cells, mark_cells, name_sides

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
    parts += _panels(one, below)
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


def _panels(one: AttentionWeights, top: float) -> Iterator[str]:
    for layer in range(one.layers):
        for head in range(one.heads):
            x, y = 16 + head * (_PANEL + 14), top + layer * (_PANEL + 30)
            name = f"Layer {layer + 1}, head {head + 1}"
            yield label(x, y - 6, name, role="soft", size=11)
            matrix = one.weights[layer, head]
            yield from cells(matrix, x, y, _PANEL / matrix.shape[1], _PANEL / matrix.shape[0])
