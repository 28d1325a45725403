"""Constituency trees drawn with lines, from the top down."""

from collections.abc import Iterator

from heedful.base.trees import UNTAGGED, Leaf, Tree


def draw(tree: Tree) -> str:
    """Return the drawing of a tree: one line per constituent and word."""
    return "\n".join(_lines(tree, "", ""))


def _lines(node: Tree | Leaf, first: str, rest: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield f"{first}{node.word}" if node.tag == UNTAGGED else f"{first}{node.tag} {node.word}"
        return
    yield f"{first}{node.label}"
    for child in node.children[:-1]:
        yield from _lines(child, f"{rest}├─ ", f"{rest}│  ")
    yield from _lines(node.children[-1], f"{rest}└─ ", f"{rest}   ")
