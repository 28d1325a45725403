"""A parse as a drawn tree: constituents above their words, as linguists draw it."""

import html
from typing import Final

from heedful.pages.ink import FAINT, INK, RULE, svg_page
from heedful.trees import Leaf, Tree

_LETTER: Final = 7.6  # mean width of a letter, at 14 pixels
_ROW: Final = 46  # from a constituent to its parts
_GAP: Final = 18  # between words


def parse_svg(tree: Tree) -> str:
    """Return the drawing of a tree. Words are in one row at the bottom, each under its tag."""
    drawing = _Drawing(_depth(tree))
    drawing.place(tree, 0)
    width, height = drawing.right + 8, drawing.bottom + 30
    title = " ".join(tree.words)
    return svg_page(width, height, f"Parse of {title}", "".join(drawing.lines + drawing.labels))


class _Drawing:
    """Lines and labels, from left to right."""

    def __init__(self, depth: int) -> None:
        self.lines: list[str] = []
        self.labels: list[str] = []
        self.right = 8.0
        self.bottom = 20 + depth * _ROW

    def place(self, part: Tree | Leaf, level: int) -> float:
        """Draw a part and all below it; return the middle of its label."""
        y = 20 + level * _ROW
        if isinstance(part, Leaf):
            width = _LETTER * max(len(part.word), len(part.tag))
            middle, top = self.right + width / 2, self.bottom - _ROW / 2
            self.right += width + _GAP
            self._label(part.tag, middle, top, "tag")
            self._label(part.word, middle, self.bottom + 10, "word")
            return middle
        middles = [self.place(child, level + 1) for child in part.children]
        middle = (middles[0] + middles[-1]) / 2
        for child, x in zip(part.children, middles, strict=True):
            below = self.bottom - _ROW / 2 - 12 if isinstance(child, Leaf) else y + _ROW - 12
            self.lines.append(
                f'<path d="M{middle:.1f} {y + 8:.1f}L{x:.1f} {below:.1f}" fill="none" stroke="{RULE}" '
                'stroke-width="1.5"/>'
            )
        self.right = max(self.right, middle + _LETTER * len(part.label) / 2 + _GAP)
        self._label(part.label, middle, y, "label")
        return middle

    def _label(self, text: str, x: float, y: float, kind: str) -> None:
        ink, weight = (FAINT, 400) if kind == "tag" else (INK, 600 if kind == "label" else 400)
        self.labels.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" dominant-baseline="central" fill="{ink}" '
            f'font-weight="{weight}" font-size="{12 if kind == "tag" else 14}">{html.escape(text)}</text>'
        )


def _depth(part: Tree | Leaf) -> int:
    return 1 if isinstance(part, Leaf) else 1 + max(map(_depth, part.children))


