"""Parts of speech and base noun phrases from bracketed trees, in columns that a tagger reads.

    python -m benchmarks.tree_columns TREES... --out FOLDER

Each file holds one tree per line, as GUM's and the Penn Treebank's: `(ROOT (S (NP (DT A) (NN dog)) (VP (VBZ barks))))`.
For dev.trees.gz the folder gets dev.conll: word, part of speech and base noun phrase, separated by tabs. A base noun
phrase is an NP that contains no other NP; its words are B-NP and I-NP, all others O (Ramshaw and Marcus 1995).
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from heedful.data.corpora.lines import locate, read_lines

PHRASE: Final = "NP"
_EMPTY: Final = "-NONE-"  # the tag of what is not spoken
_PARTS: Final = re.compile(r"\(|\)|[^\s()]+")
_ESCAPED: Final = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}

Row = tuple[str, str, str]  # word, part of speech, base noun phrase


class Tree:
    """A node with its label and its children, or with a word."""

    def __init__(self, label: str) -> None:
        self.label, self.word, self.children = label, "", list[Tree]()

    @property
    def is_phrase(self) -> bool:
        """Whether the node is a noun phrase; NP-SBJ and NP=2 are too."""
        return re.split(r"[-=]", self.label)[0] == PHRASE and not self.word

    def has_phrase(self) -> bool:
        """Whether a noun phrase is below the node."""
        return any(child.is_phrase or child.has_phrase() for child in self.children)

    def leaves(self) -> Iterator["Tree"]:
        """Yield the nodes with words, in order."""
        if self.word:
            yield self
        for child in self.children:
            yield from child.leaves()


def parse(line: str) -> Tree:
    """Read the tree of a line."""
    root, path = Tree(""), list[Tree]()
    current = root
    opened = False
    for part in _PARTS.findall(line):
        if part == "(":
            node = Tree("")
            current.children.append(node)
            path.append(current)
            current, opened = node, True
        elif part == ")":
            if not path:
                raise ValueError(f"a bracket too many: {line[:60]}")
            current, opened = path.pop(), False
        elif opened:
            current.label, opened = part, False
        else:
            current.word = f"{current.word}{part}"
    if path:
        raise ValueError(f"a bracket too few: {line[:60]}")
    return root


def rows_of(tree: Tree) -> list[Row]:
    """Return the words of a tree with their labels."""
    rows: list[Row] = []
    _add(tree, rows)
    return rows


def _add(node: Tree, rows: list[Row]) -> None:
    if node.is_phrase and not node.has_phrase():
        words = [leaf for leaf in node.leaves() if leaf.label != _EMPTY]
        rows += [(_word(leaf), leaf.label, f"{'I' if place else 'B'}-{PHRASE}") for place, leaf in enumerate(words)]
    elif node.word:
        rows += [(_word(node), node.label, "O")] if node.label != _EMPTY else []
    else:
        for child in node.children:
            _add(child, rows)


def _word(leaf: Tree) -> str:
    return _ESCAPED.get(leaf.word, leaf.word)


def write_columns(trees: Path, out: Path) -> Path:
    """Write the columns of a file of trees into a folder; return the new file."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{trees.name.split('.')[0]}.conll"
    lines = read_lines(locate(str(trees)))
    sentences = (rows_of(parse(line)) for line in lines if line.strip())
    text = "\n".join("".join("\t".join(row) + "\n" for row in rows) for rows in sentences if rows)
    path.write_text(text, encoding="utf-8")
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the columns of every file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", type=Path, help="files of one tree per line")
    parser.add_argument("--out", type=Path, required=True, help="folder of the new files")
    options = parser.parse_args(arguments)
    for trees in options.trees:
        print(write_columns(trees, options.out))


if __name__ == "__main__":
    main()
