"""Bracketed trees from files, cleaned by rule, and as pairs of a parser's source and target."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from heedful.base.errors import UserError, counted
from heedful.base.trees import Leaf, Tree, clean, linearize, read_tree
from heedful.config.corpora.containers import Leaves, Trees
from heedful.data.corpora.files import choose, files_of, select_lines
from heedful.data.corpora.formats.lines import read_lines

WORD: Final = "w"  # each word in a target, where leaves are symbols
_WRITTEN: Final[Mapping[Leaves, Callable[[Leaf], str]]] = {
    "symbol": lambda leaf: WORD,
    "tag": lambda leaf: leaf.tag,
    "word": lambda leaf: leaf.word,
}


def read_trees(corpus: Trees, folder: str = "") -> Iterator[Tree | None]:
    """Yield the tree of each line of the corpus: see `all_trees`."""
    trees = select_lines(all_trees(corpus, folder), corpus)
    if corpus.sample is not None:
        trees = (tree for tree in trees if tree is not None)  # blank lines do not count towards the sample
    return choose(trees, corpus, lambda tree: "" if tree is None else " ".join(tree.words), "tree")


def all_trees(corpus: Trees, folder: str = "") -> Iterator[Tree | None]:
    """Yield the tree of each line, without traces and functions; None for a blank line, or one of traces alone."""
    (file,) = files_of(corpus, folder)
    for number, line in enumerate(read_lines(file), start=1):
        yield tree_of_line(line, f"{file.name}, line {number:,}")


def tree_of_line(line: str, where: str) -> Tree | None:
    """Return the tree of a line, without traces and functions; None if that leaves nothing."""
    return clean(read_tree(line, where)) if line.strip() else None


def check_words(tree: Tree, words: Sequence[str], where: str) -> None:
    """Refuse a tree over other words than those of its sentence."""
    found = tree.words
    if found == tuple(words):
        return
    if len(found) != len(words):
        raise UserError(
            f"{where}: the tree has {counted(len(found), 'word')}, but the sentence has {len(words):,}: a tree is over "
            "exactly the words of its sentence, separated by spaces."
        )
    number = next(number for number, pair in enumerate(zip(found, words, strict=True)) if pair[0] != pair[1])
    raise UserError(
        f"{where}: word {number + 1:,} of the tree is `{found[number]}`, but that of the sentence is "
        f"`{words[number]}`: a tree is over exactly the words of its sentence."
    )


def tree_pair(tree: Tree, leaves: Leaves) -> tuple[str, str]:
    """Return the words of a tree, and its brackets with what a parser writes in the place of each word."""
    return " ".join(tree.words), " ".join(linearize(tree, _WRITTEN[leaves]))
