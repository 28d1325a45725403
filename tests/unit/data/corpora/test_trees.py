"""Trees from files as treebanks have them: one per line, or each over several lines."""

import gzip
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.config.corpora.containers import Trees
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.trees import numbered_trees, read_trees

PENN = """
( (S
    (NP-SBJ (DT A) (NN dog))
    (VP (VBZ barks)
      (S (NP (-NONE- *)) ))
    (. .) ))
( (S (NP (PRP It)) (VP (VBZ runs)) ))

( (NP (-NONE- *)))
( (S
    (VP (VB Go)))) ( (S (VP (VB Stay))))
"""


def read(folder: Path, text: str) -> list[tuple[int, str | None]]:
    (folder / "a.mrg").write_bytes(text.encode())
    found = numbered_trees(Trees(trees="a.mrg"), str(folder))
    return [(line, None if tree is None else str(tree)) for line, tree in found]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_trees_extend_over_lines_as_in_the_penn_treebank(tmp_path: Path, line_end: str) -> None:
    assert read(tmp_path, PENN.replace("\n", line_end)) == [
        (2, "(TOP (S (NP (DT A) (NN dog)) (VP (VBZ barks)) (. .)))"),
        (7, "(TOP (S (NP (PRP It)) (VP (VBZ runs))))"),
        (9, None),  # traces alone
        (10, "(TOP (S (VP (VB Go))))"),
        (11, "(TOP (S (VP (VB Stay))))"),
    ]


@pytest.mark.parametrize("root", ["ROOT", "TOP", "S1"])
def test_a_label_at_the_root_stays(tmp_path: Path, root: str) -> None:
    assert read(tmp_path, f"({root}\n  (S (NN dog)))\n") == [(1, f"({root} (S (NN dog)))")]


def test_one_tree_per_line_has_a_row_for_each_blank_line(tmp_path: Path) -> None:
    text = "\n \n(S (NN a))\n\n(S (NN b)) (S (NN c))\n(X (-NONE- *))\n\n"
    expected = [(1, None), (2, None), (3, "(S (NN a))"), (4, None), (5, "(S (NN b))"), (5, "(S (NN c))")]
    assert read(tmp_path, text) == [*expected, (6, None), (7, None)]
    assert read(tmp_path, "\n\n") == [(1, None), (2, None)]
    assert read(tmp_path, "") == []


def test_trees_over_lines_are_pairs_of_a_parser_and_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "a.mrg.gz").write_bytes(gzip.compress(PENN.encode()))
    corpus = Trees(trees="a.mrg.gz", lines="2-4")
    assert list(read_pairs(corpus, str(tmp_path))) == [
        ("It runs", "(TOP (S (NP w )NP (VP w )VP )S )TOP"),
        ("", ""),
        ("Go", "(TOP (S (VP w )VP )S )TOP"),
    ]
    assert len(list(read_trees(Trees(trees="a.mrg.gz", sample=2), str(tmp_path)))) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            PENN + "(S\n  (NP (NN dog))\n(S (NP (NN cat)))\n",
            "..., line 12: the tree that begins there has 1 bracket that the file never closes: every `(` needs a `)`.",
        ),
        (
            "(S (NN a))\n(S (NP (NN b))\n(S (NP (NN c)))\n(S (NN d)) )\n",
            "..., line 2: 1 bracket of the tree not closed before the next one begins: every `(` needs a `)`.",
        ),
        ("(S\n (NN a)\n ((NN b)))\n", "..., line 1: an inner bracket has no label: ..."),
        ("(S\n (NN a)))\n", "..., line 2 continues with `)` after the end of ..."),
        ("(S\n (NN a))\nword\n", "..., line 3 begins with `word`, but a tree ..."),
    ],
)
def test_a_damaged_tree_is_refused_where_it_begins(tmp_path: Path, text: str, message: str) -> None:
    with refuses(message):
        read(tmp_path, text)
