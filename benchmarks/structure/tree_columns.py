"""Parts of speech and base noun phrases from bracketed trees, in columns that a tagger reads.

    python -m benchmarks.structure.tree_columns TREES... --out FOLDER

Each file holds one tree per line, as GUM's and the Penn Treebank's: `(ROOT (S (NP (DT A) (NN dog)) (VP (VBZ barks))))`.
For dev.trees.gz the folder gets dev.conll: word, part of speech and base noun phrase, separated by tabs. A base noun
phrase is an NP that contains no other NP; its words are B-NP and I-NP, all others O (Ramshaw and Marcus 1995).
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from heedful.base.trees import TRACE, Leaf, Tree, read_tree
from heedful.data.corpora.formats.lines import locate, read_lines

PHRASE: Final = "NP"
_BRACKETS: Final = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}

Row = tuple[str, str, str]  # word, part of speech, base noun phrase


def rows_of(node: Tree | Leaf) -> Iterator[Row]:
    """Yield the words of a tree with their labels, in order."""
    if isinstance(node, Leaf):
        yield from _labelled([node], ["O"])
    elif _is_phrase(node) and not _has_phrase(node):
        words = [leaf for leaf in node.leaves if leaf.tag != TRACE]
        yield from _labelled(words, [f"{'I' if place else 'B'}-{PHRASE}" for place in range(len(words))])
    else:
        for child in node.children:
            yield from rows_of(child)


def _labelled(leaves: Sequence[Leaf], labels: Sequence[str]) -> Iterator[Row]:
    for leaf, label in zip(leaves, labels, strict=True):
        if leaf.tag != TRACE:
            yield _BRACKETS.get(leaf.word, leaf.word), leaf.tag, label


def _is_phrase(node: Tree | Leaf) -> bool:
    """Whether a node is a noun phrase; NP-SBJ and NP=2 are too."""
    return isinstance(node, Tree) and re.split(r"[-=]", node.label)[0] == PHRASE


def _has_phrase(node: Tree) -> bool:
    """Whether a noun phrase is below a node."""
    return any(_is_phrase(child) or (isinstance(child, Tree) and _has_phrase(child)) for child in node.children)


def write_columns(trees: Path, out: Path) -> Path:
    """Write the columns of a file of trees into a folder; return the new file."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{trees.name.split('.')[0]}.conll"
    lines = enumerate(read_lines(locate(str(trees))), start=1)
    sentences = ([*rows_of(read_tree(line, f"{trees}, line {number:,}"))] for number, line in lines if line.strip())
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
