"""Trees of a treebank as columns of parts of speech and base noun phrases, and the benchmark that is made of them."""

import gzip
from argparse import Namespace
from pathlib import Path

import pytest
from benchmarks.structure.tagging import baseline, check, figures_of, write_written
from benchmarks.structure.tree_columns import main, rows_of, write_columns

from heedful.base.trees import read_tree

NESTED = (
    "(ROOT (S (NP-SBJ (NP (DT The) (NN end)) (PP (IN of) (NP (DT a) (NN day)))) (VP (VBZ nears) (NP (-NONE- *T*)))))"
)


def test_a_base_noun_phrase_contains_no_other() -> None:
    assert [*rows_of(read_tree(NESTED, "here"))] == [
        ("The", "DT", "B-NP"),
        ("end", "NN", "I-NP"),
        ("of", "IN", "O"),
        ("a", "DT", "B-NP"),
        ("day", "NN", "I-NP"),
        ("nears", "VBZ", "O"),
    ]


def test_phrases_next_to_each_other_stay_two_and_brackets_are_words_again() -> None:
    tree = "(S (NP (PRP I)) (NP (NN today)) (PRN (-LRB- -LRB-) (NP (NNP Bo)) (-RRB- -RRB-)))"
    assert [(word, label) for word, _, label in rows_of(read_tree(tree, "here"))] == [
        ("I", "B-NP"), ("today", "B-NP"), ("(", "O"), ("Bo", "B-NP"), (")", "O"),
    ]  # fmt: skip


def test_a_file_of_trees_becomes_sentences_in_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dev.trees.gz").write_bytes(gzip.compress(f"{NESTED}\n\n(ROOT (NP (NN Rain)))\n".encode()))
    main([str(tmp_path / "dev.trees.gz"), "--out", str(tmp_path / "out")])
    assert capsys.readouterr().out == f"{tmp_path}/out/dev.conll\n"
    assert (tmp_path / "out/dev.conll").read_text().splitlines()[5:] == ["nears\tVBZ\tO", "", "Rain\tNN\tB-NP"]


def test_the_baseline_is_the_usual_label_of_each_word(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text("a X\na X\na Y\nb Y\nc X\n")
    (tmp_path / "test.conll").write_text("a X\nb Y\nb X\nnew X\n")
    assert baseline(tmp_path, label=2) == 0.75


def test_figures_are_means_over_seeds() -> None:
    found = [{"f1": 0.9, "f1_written": 0.93, "accuracy": 0.95}, {"f1": 0.92, "f1_written": 0.95, "accuracy": 0.97}]
    figures, details = figures_of("chunks", found)
    assert figures == {"chunk_f1": 0.91, "chunk_f1_sd": 0.0141, "chunk_f1_written": 0.94}
    assert len(details["chunks"]) == 2
    assert figures_of("cost", [{"crf_cost": 0.8}])[0] == {"crf_cost": 0.8}


def test_sentences_whose_words_the_corpus_withholds_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "test.conll").write_text("a X\nb Y\n\n_ X\n__ Y\n\nc_ Z\n")
    write_written(tmp_path)
    assert (tmp_path / "written.conll").read_text() == "a X\nb Y\n\nc_ Z\n"


def test_a_part_that_starts_from_bert_asks_for_one() -> None:
    nothing = Namespace(bert=None, texts=None)
    assert check(nothing, ["speech", "chunks", "cost"]) is None
    assert check(nothing, ["speech_bert"]) == (
        "--bert or --texts: say which BERT speech_bert starts from, or leave the part out of --parts"
    )
    assert check(Namespace(bert=Path("bert"), texts=None), ["speech_bert"]) is None


def test_a_line_that_is_not_a_tree_is_named(tmp_path: Path) -> None:
    (tmp_path / "dev.trees").write_text("(ROOT (NN a))\n(ROOT (NN a)\n")
    with pytest.raises(Exception, match=r"dev\.trees, line 2: 1 bracket not closed"):
        write_columns(tmp_path / "dev.trees", tmp_path)
