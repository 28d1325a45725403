"""Constituency trees: read and written with brackets, cleaned by rule, and as a sequence of brackets and words.

    (S (NP (DT a) (NN dog)) (VP (VBZ barks)))         as treebanks write it: a bracket around a word has its tag
    (S (NP a dog )NP (VP barks )VP )S                 as a sequence, without tags      Vinyals et al. 2015, 2.2

Closing brackets of the sequence say what they close. This module does not need torch.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from heedful.base.errors import UserError, counted

UNTAGGED: Final = "XX"  # the tag of a word whose tag is not known
TOP: Final = "TOP"  # the label of an outermost bracket that has none, as in the Penn Treebank
TRACE: Final = "-NONE-"  # the tag of a trace: an element without words
DEEPEST: Final = 200  # levels; a deeper tree is a mistake, and would exhaust Python's stack

_TOKENS: Final = re.compile(r"[()]|[^\s()]+")


@dataclass(frozen=True)
class Leaf:
    """A word and its tag."""

    tag: str
    word: str

    def __str__(self) -> str:
        return f"({self.tag} {escape_brackets(self.word)})"


@dataclass(frozen=True)
class Tree:
    """A constituent: a label over at least one part."""

    label: str
    children: "tuple[Tree | Leaf, ...]"

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """All words with their tags, in order."""
        return tuple(
            leaf for child in self.children for leaf in ((child,) if isinstance(child, Leaf) else child.leaves)
        )

    @property
    def words(self) -> tuple[str, ...]:
        """All words, in order."""
        return tuple(leaf.word for leaf in self.leaves)

    def __str__(self) -> str:
        return f"({self.label} {' '.join(map(str, self.children))})"


# --- with brackets ----------------------------------------------------------------------------------------------------


def escape_brackets(text: str) -> str:
    """Return a text with -LRB- and -RRB- in the place of round brackets, as treebanks write them."""
    return text.replace("(", "-LRB-").replace(")", "-RRB-")


def read_tree(text: str, where: str) -> Tree:
    """Read one tree, which `str` writes; `where` says where it is, such as "train.trees, line 7"."""
    reader = TreeReader()
    trees = [*reader.read(text, where)]
    if reader.unclosed:
        raise UserError(f"{where}: {counted(reader.unclosed, 'bracket')} not closed: every `(` needs a `)`.")
    if len(trees) != 1:
        raise UserError(f"{where} has {len(trees) or 'no'} tree{'s, but must have one' if trees else ''}.")
    return trees[0]


class TreeReader:
    """Reads trees from texts, such as the lines of a file; a tree may begin in one of them and end in another."""

    def __init__(self) -> None:
        self._opened: list[_Opened] = []
        self.root = ""  # what follows the outermost bracket of the tree that is read, or was read last

    @property
    def unclosed(self) -> int:
        """Number of brackets that are not closed yet."""
        return len(self._opened)

    @property
    def where(self) -> str:
        """Where the tree began that is not closed yet."""
        return self._opened[0].where

    def read(self, text: str, where: str) -> Iterator[Tree]:
        """Yield the trees that end in this text; `where` says where it is."""
        opened, after = self._opened, False
        for token in _TOKENS.findall(text):
            if len(opened) == 1 and not self.root:
                self.root = token
            match token:
                case "(":
                    if len(opened) == DEEPEST:
                        raise UserError(f"{self.where}: the tree has more than {DEEPEST} levels, the maximum.")
                    if not opened:
                        self.root = ""
                    opened.append(_Opened(opened[0].where if opened else where))
                case ")" if opened:
                    closed = opened.pop().close(outermost=not opened)
                    if opened:
                        opened[-1].add(closed)
                    else:
                        yield Tree(TOP, (closed,)) if isinstance(closed, Leaf) else closed
                        after = True
                case _ if opened:
                    opened[-1].take(token)
                case _ if after:
                    raise UserError(f"{where} continues with `{token}` after the end of its tree: remove it.")
                case _:
                    raise UserError(f"{where} begins with `{token}`, but a tree begins with an opening bracket.")


@dataclass
class _Opened:
    """A bracket that is not closed yet."""

    where: str
    label: str = ""
    word: str | None = None
    children: list[Tree | Leaf] = field(default_factory=list)

    def take(self, token: str) -> None:
        """Take the label, or the word."""
        if self.children or self.word is not None:
            raise UserError(f"{self.where}: the word `{token}` needs a bracket of its own, with its tag.")
        if self.label:
            self.word = token
        else:
            self.label = token

    def add(self, child: Tree | Leaf) -> None:
        """Take a part."""
        if self.word is not None:
            raise UserError(f"{self.where}: the word `{self.word}` needs a bracket of its own, with its tag.")
        self.children.append(child)

    def close(self, outermost: bool) -> Tree | Leaf:
        """Return what is in the bracket."""
        if self.word is not None:
            return Leaf(self.label, self.word)
        if not self.children:
            raise UserError(f"{self.where}: the bracket `({self.label})` has neither a word nor other brackets.")
        if not self.label and not outermost:
            raise UserError(f"{self.where}: an inner bracket has no label: write `(NP ...)`.")
        return Tree(self.label or TOP, tuple(self.children))


def clean(tree: Tree) -> Tree | None:
    """Return the tree without traces, constituents of traces only, and function labels (NP-SBJ=1 becomes NP).

    None if nothing is left.
    """
    children = [child if isinstance(child, Leaf) else clean(child) for child in tree.children]
    kept = tuple(child for child in children if child is not None and getattr(child, "tag", "") != TRACE)
    return Tree(without_function(tree.label), kept) if kept else None


def without_function(label: str) -> str:
    """Return a label without its function, which begins at the first - or =; labels such as -LRB- stay whole."""
    return re.split(r"(?<=.)[-=]", label, maxsplit=1)[0] if not label.startswith("-") else label


# --- as a sequence ----------------------------------------------------------------------------------------------------


def linearize(tree: Tree, written: Callable[[Leaf], str] = lambda leaf: leaf.word) -> list[str]:
    """Return the tree as a sequence; `written` says what is in the place of each word."""
    return list(_linearized(tree, written))


def _linearized(tree: Tree, written: Callable[[Leaf], str]) -> Iterator[str]:
    yield f"({tree.label}"
    for child in tree.children:
        if isinstance(child, Leaf):
            yield written(child)
        else:
            yield from _linearized(child, written)
    yield f"){tree.label}"


def from_sequence(sequence: Sequence[str], words: Sequence[str], tags: Sequence[str] | None = None) -> Tree | None:
    """Return the tree of a sequence over these words, whatever the sequence has in their places.

    None if the sequence is not a tree over exactly as many words, or has more levels than a tree may have. Without
    `tags`, words are tagged XX.
    """
    given = iter(zip(words, tags or [UNTAGGED] * len(words), strict=True))
    opened: list[tuple[str, list[Tree | Leaf]]] = []
    root: Tree | None = None
    for token in sequence:
        if root is not None:
            return None
        if opens(token):
            if len(opened) == DEEPEST:
                return None
            opened.append((token[1:], []))
        elif not opened:
            return None
        elif closes(token):
            label, children = opened.pop()
            if label != token[1:] or not children:
                return None
            constituent = Tree(label, tuple(children))
            if opened:
                opened[-1][1].append(constituent)
            else:
                root = constituent
        else:
            word, tag = next(given, (None, ""))
            if word is None:
                return None
            opened[-1][1].append(Leaf(tag, word))
    return root if next(given, None) is None else None


def opens(token: str) -> bool:
    """Return whether a token of a sequence opens a constituent; words have no brackets (treebanks write -LRB-)."""
    return token.startswith("(") and len(token) > 1


def closes(token: str) -> bool:
    """Return whether a token of a sequence closes a constituent."""
    return token.startswith(")") and len(token) > 1
