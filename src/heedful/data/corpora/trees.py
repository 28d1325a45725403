"""Bracketed trees from files, cleaned by rule, and as pairs of a parser's source and target."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from heedful.base.errors import UserError, counted
from heedful.base.trees import Leaf, Tree, TreeReader, clean, linearize, read_tree
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
    """Yield the trees of the corpus that its recipe chooses: see `all_trees`."""
    trees = select_lines(all_trees(corpus, folder), corpus)
    if corpus.sample is not None:
        trees = (tree for tree in trees if tree is not None)  # blank lines do not count towards the sample
    return choose(trees, corpus, lambda tree: "" if tree is None else " ".join(tree.words), "tree")


def all_trees(corpus: Trees, folder: str = "") -> Iterator[Tree | None]:
    """Yield the trees of a file, without traces and functions; None for one of traces alone, and for a blank line.

    Blank lines between trees that extend over several lines are left out.
    """
    return (tree for _, tree in numbered_trees(corpus, folder))


def numbered_trees(corpus: Trees, folder: str = "") -> Iterator[tuple[int, Tree | None]]:
    """Yield the trees of a file as `all_trees` does, each with the line where it begins."""
    (file,) = files_of(corpus, folder)
    return trees_of_lines(read_lines(file), file.name)


def trees_of_lines(lines: Iterable[str], name: str) -> Iterator[tuple[int, Tree | None]]:
    """Yield the trees on lines, and None for blank lines, each with its line; a tree may extend over several.

    One per line is the usual form: there a blank line is a row, as in files that are aligned by line.
    """
    reader, began, blank = TreeReader(), 0, 0
    on_one_line = over_several = False
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            if on_one_line and not (over_several or reader.unclosed):
                yield number, None
            blank += not on_one_line and not over_several  # before the first tree, which tells what they mean
            continue
        if reader.unclosed:
            _refuse_next_tree(reader, line, on_one_line and not over_several)
        else:
            began = number
        for tree in reader.read(line, f"{name}, line {number:,}"):
            on_one_line, over_several = on_one_line or began == number, over_several or began < number
            if blank and not over_several:
                yield from ((row + 1, None) for row in range(blank))
            blank = 0
            yield began, clean(tree)
            began = number  # of a further tree on the line
    if reader.unclosed:
        raise UserError(
            f"{reader.where}: the tree that begins there has {counted(reader.unclosed, 'bracket')} that the file never "
            "closes: every `(` needs a `)`."
        )
    yield from ((row + 1, None) for row in range(blank))


def _refuse_next_tree(reader: TreeReader, line: str, one_per_line: bool) -> None:
    """Refuse a tree that is not closed where the next one begins, in a file that had one per line so far."""
    starts = re.match(r"\(\s*(\(|[^\s()]+)", line)
    if one_per_line and starts and starts[1] == reader.root and line.count("(") == line.count(")"):
        raise UserError(
            f"{reader.where}: {counted(reader.unclosed, 'bracket')} of the tree not closed before the next one begins: "
            "every `(` needs a `)`."
        )


def tree_of_line(line: str, where: str) -> Tree | None:
    """Return the one tree of a line or a text, without traces and functions; None if that leaves nothing."""
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
