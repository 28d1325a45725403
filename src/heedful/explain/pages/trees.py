"""Drawn trees: a beam search, with every hypothesis among the K best and where it died, and a parse."""

from collections.abc import Sequence
from typing import Final

from heedful.base.trees import Leaf, Tree
from heedful.explain.explanation import SearchNode
from heedful.pages.charts.drawing import escape, image, label, number, paint, text_width

_ROW: Final = 26
_LEFT, _TOP = 16, 28
_ENDS: Final = {"finished": "ended", "died": "died", "open": "open"}


def beam_svg(nodes: Sequence[SearchNode], title: str) -> str:
    """Return the drawing: a column per token, the hypothesis that was found in the first row.

    Candidates that never were among the K best are not drawn.
    """
    kept = [index for index, node in enumerate(nodes) if node.fate != "dropped"]
    children: dict[int | None, list[int]] = {}
    for index in kept:
        children.setdefault(nodes[index].parent, []).append(index)
    rows = _place(nodes, children)
    last = max((nodes[index].step for index in kept), default=0)
    widths = [
        max((_width(nodes[i].piece) for i in kept if nodes[i].step == step), default=0) for step in range(1, last + 1)
    ]
    lefts = [float(_LEFT)]
    for width in widths:
        lefts.append(lefts[-1] + max(width, 30) + 44)
    parts: list[str] = []
    for index in kept:
        node = nodes[index]
        x, y = lefts[node.step - 1], _TOP + rows[index] * _ROW
        if node.parent is not None:
            before = nodes[node.parent]
            x0 = lefts[before.step - 1] + _width(before.piece) + 6
            y0, middle = _TOP + rows[node.parent] * _ROW, (lefts[before.step - 1] + x) / 2 + 20
            start, bend, end = (number(x0), number(middle), number(x - 5))
            top, bottom = number(y0 - 4), number(y - 4)
            line = f"M{start} {top}C{bend} {top} {bend} {bottom} {end} {bottom}"
            role, width = ("accent", 2.25) if node.best else ("faint", 1)
            parts.append(
                f'<path d="{line}" fill="none" {paint(role, "stroke")} stroke-width="{width}" stroke-opacity=".7"/>'
            )
        weight = ' font-weight="600"' if node.best else ""
        role = "accent" if node.best else "doubt" if node.fate == "died" else "ink"
        said = f"{node.piece}: log P {node.log_probability:.3f}, score {node.score:.3f}, {node.fate}"
        parts.append(f"<g><title>{escape(said)}</title>{label(x, y, node.piece, role=role, more=weight)}</g>")
        if node.fate in _ENDS:
            end = f"{_ENDS[node.fate]} {node.score:.2f}"
            place = x + _width(node.piece) + 6
            parts.append(label(place, y, end, role="doubt" if node.fate == "died" else "soft", size=11))
    width = lefts[-1] + 70
    return image(width, _TOP + _ROW * (max(rows.values(), default=0) + 1), title, parts)


def _width(piece: str) -> float:
    """Return how wide a piece may be, in bold too: a line or a score comes after it."""
    return 1.1 * text_width(piece) + 4.5 * sum(letter in "mwMW" for letter in piece)


def _place(nodes: Sequence[SearchNode], children: dict[int | None, list[int]]) -> dict[int, int]:
    """Return the row of each node: a branch starts in the row of its first child, the others are below it."""
    rows: dict[int, int] = {}
    free = 0
    waiting = [*reversed(_in_order(nodes, children.get(None, [])))]
    while waiting:  # depth first, without recursion: hypotheses are long
        index = waiting.pop()
        inside = _in_order(nodes, children.get(index, []))
        rows[index] = free
        if not inside:
            free += 1
        waiting += reversed(inside)
    for index in sorted(
        rows, key=lambda one: -nodes[one].step
    ):  # later nodes first: a node is level with its first child
        inside = _in_order(nodes, children.get(index, []))
        if inside:
            rows[index] = rows[inside[0]]
    return rows


def _in_order(nodes: Sequence[SearchNode], some: Sequence[int]) -> list[int]:
    """Return nodes with the one that was found first, then by score."""
    return sorted(some, key=lambda index: (not nodes[index].best, -nodes[index].score))


# --- a parse as a drawn tree: constituents above their words, as linguists draw it ------------------------------------


_LEVEL: Final = 44  # from a constituent to its parts
_GAP: Final = 16  # between words
_ABOVE: Final = 26


def parse_svg(tree: Tree) -> str:
    """Return the drawing of a tree. Words are in one row at the bottom, each under its tag."""
    parts: list[str] = []
    right, bottom = float(_GAP), _ABOVE + (_depth(tree) - 1) * _LEVEL

    def place(part: Tree | Leaf, level: int) -> float:
        """Draw a part and all below it, from left to right; return the middle of its label."""
        nonlocal right
        if isinstance(part, Leaf):
            width = max(text_width(part.word), text_width(part.tag, 11.5))
            middle = right + width / 2
            right += width + _GAP
            parts.append(label(middle, bottom - 4, part.tag, anchor="middle", role="soft", size=11.5))
            parts.append(label(middle, bottom + 16, part.word, anchor="middle"))
            return middle
        left = right
        middles = [place(child, level + 1) for child in part.children]
        middle, y = (middles[0] + middles[-1]) / 2, _ABOVE + level * _LEVEL
        middle = max(middle, left + text_width(part.label) / 2)
        for child, x in zip(part.children, middles, strict=True):
            below = bottom - 18 if isinstance(child, Leaf) else y + _LEVEL - 14
            line = f"M{number(middle)} {number(y + 6)}L{number(x)} {number(below)}"
            parts.append(f'<path d="{line}" {paint("faint", "stroke")} stroke-opacity=".6" stroke-width="1.25"/>')
        right = max(right, middle + text_width(part.label) / 2 + _GAP)
        parts.append(label(middle, y, part.label, anchor="middle", more=' font-weight="600"'))
        return middle

    place(tree, 0)
    return image(right, bottom + 30, f"Parse of {' '.join(tree.words)}", parts, str(tree))


def _depth(part: Tree | Leaf) -> int:
    return 1 if isinstance(part, Leaf) else 1 + max(map(_depth, part.children))
