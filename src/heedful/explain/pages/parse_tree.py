"""A parse as a drawn tree: constituents above their words, as linguists draw it."""

from typing import Final

from heedful.base.trees import Leaf, Tree
from heedful.pages.charts.colours import paint
from heedful.pages.charts.drawing import image, label, number, text_width

_ROW: Final = 44  # from a constituent to its parts
_GAP: Final = 16  # between words
_TOP: Final = 26


def parse_svg(tree: Tree) -> str:
    """Return the drawing of a tree. Words are in one row at the bottom, each under its tag."""
    drawing = _Drawing(_depth(tree))
    drawing.place(tree, 0)
    return image(drawing.right, drawing.bottom + 30, f"Parse of {' '.join(tree.words)}", drawing.parts, str(tree))


class _Drawing:
    """Lines and labels, from left to right."""

    def __init__(self, depth: int) -> None:
        self.parts: list[str] = []
        self.right = float(_GAP)
        self.bottom = _TOP + (depth - 1) * _ROW

    def place(self, part: Tree | Leaf, level: int) -> float:
        """Draw a part and all below it; return the middle of its label."""
        if isinstance(part, Leaf):
            width = max(text_width(part.word), text_width(part.tag, 11.5))
            middle = self.right + width / 2
            self.right += width + _GAP
            self.parts.append(label(middle, self.bottom - 4, part.tag, anchor="middle", role="soft", size=11.5))
            self.parts.append(label(middle, self.bottom + 16, part.word, anchor="middle"))
            return middle
        left = self.right
        middles = [self.place(child, level + 1) for child in part.children]
        middle, y = (middles[0] + middles[-1]) / 2, _TOP + level * _ROW
        middle = max(middle, left + text_width(part.label) / 2)
        for child, x in zip(part.children, middles, strict=True):
            below = self.bottom - 18 if isinstance(child, Leaf) else y + _ROW - 14
            line = f"M{number(middle)} {number(y + 6)}L{number(x)} {number(below)}"
            self.parts.append(f'<path d="{line}" {paint("faint", "stroke")} stroke-opacity=".6" stroke-width="1.25"/>')
        self.right = max(self.right, middle + text_width(part.label) / 2 + _GAP)
        self.parts.append(label(middle, y, part.label, anchor="middle", more=' font-weight="600"'))
        return middle


def _depth(part: Tree | Leaf) -> int:
    return 1 if isinstance(part, Leaf) else 1 + max(map(_depth, part.children))
