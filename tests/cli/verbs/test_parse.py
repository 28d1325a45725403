"""`heedful parse` as a user sees it."""

import json
from pathlib import Path

import pytest
from tests.models.text import written
from tests.shared.parsers import untrained, write_trees
from tests.shared.refusals import like

from heedful.base.trees import read_tree
from heedful.cli.main import run
from heedful.config.decode import Sampling
from heedful.tasks.parse.answers import draw
from heedful.tasks.parse.model import Parser

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    folder = tmp_path_factory.mktemp("parser")
    write_trees(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
        return written(untrained(folder), folder / "model")


def parse(model: Path, *arguments: str | Path) -> int:
    return run(["parse", str(model), "--device", "cpu", *map(str, arguments)])


def test_each_sentence_is_a_tree_on_a_line_and_a_blank_one_stays_blank(model: Path, capsys: Capture) -> None:
    assert parse(model, "--text", "w1 w2", "--text", "", "--text", "w3") == 0
    first, blank, last = capsys.readouterr().out.splitlines()
    assert read_tree(first, "here").words == ("w1", "w2")
    assert blank == ""
    assert read_tree(last, "here").words == ("w3",)


def test_given_trees_are_parsed_by_their_words_or_reported(model: Path, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "gold.trees"
    file.write_text("(S (NP (DT w1) (NN w2)) (NP-SBJ (-NONE- *T*)))\n\n(S (NP (NN w3)))\n")
    assert parse(model, "--trees", file) == 0
    shown = capsys.readouterr()
    assert [read_tree(line, "").words if line else () for line in shown.out.splitlines()] == [("w1", "w2"), (), ("w3",)]
    assert shown.err == ""
    lines = ["( w1 ) w2", *file.read_text().splitlines()[2:] * 2]
    assert parse(model, *(word for line in lines for word in ("--text", line))) == 0
    assert capsys.readouterr().err.splitlines() == [
        "heedful: texts, line 2 is a tree, whose brackets are taken for words: add --trees to parse the words of trees."
    ]
    assert parse(model, file) == 2
    assert capsys.readouterr().err == like(f"heedful: error: {file} is not plain text, but bracketed trees, ...\n")
    assert parse(model, "--trees", "--text", "w1 w2") == 2
    assert capsys.readouterr().err.splitlines() == [
        like("heedful: error: texts, line 1 begins with `w1`, but a tree begins with ...")
    ]


def test_objects_have_the_tree_and_its_probability(model: Path, capsys: Capture) -> None:
    assert parse(model, "--json", "-n", "2", "--text", "w1 w2") == 0
    found = json.loads(capsys.readouterr().out)
    best, second = found.pop("nbest")
    assert found == {"line": 1, "text": "w1 w2", "words": ["w1", "w2"], **best}
    assert best["score"] >= second["score"]
    assert read_tree(best["tree"], "here").words == ("w1", "w2")
    assert parse(model, "--json", "--text", "w1 w2") == 0
    assert json.loads(capsys.readouterr().out) == found


def test_the_lines_of_several_trees_have_numbers_and_scores(model: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "one.txt").write_text("w1 w2\n\n")
    assert parse(model, "-n", "2", tmp_path / "one.txt", "--text", "w3") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]  # like the lines of `heedful translate --n-best`
    assert float(rows[0][1]) >= float(rows[1][1])
    assert [read_tree(row[2], "").words if row[2] else () for row in rows] == [("w1", "w2")] * 2 + [()] + [("w3",)] * 2
    assert parse(model, "-n", "1", "--text", "w3") == 0
    assert capsys.readouterr().out == "\t".join(["1", *rows[3][1:]]) + "\n"
    assert parse(model, "-n", "1", "--text", "w3", "--pretty") == 0
    assert capsys.readouterr().out.startswith(f"1\t{rows[3][1]}\n")


def test_trees_are_sampled(model: Path, capsys: Capture) -> None:
    options = ["--sample", "--temperature", "2", "--top-k", "9", "--min-p", "0.01", "--seed", "4", "-n", "3"]
    assert parse(model, *options, "--text", "w1 w2") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    drawn = Sampling(2.0, top_k=9, min_p=0.01, seed=4, samples=3)
    (expected,) = Parser.load(model, "cpu").stream_detailed(["w1 w2"], sampling=drawn)
    assert [row[2] for row in rows] == [str(one.tree) for one in expected]
    assert {read_tree(row[2], "").words for row in rows} == {("w1", "w2")}


def test_trees_are_drawn(model: Path, capsys: Capture) -> None:
    assert parse(model, "--pretty", "--text", "w1 w2") == 0
    assert "└─ " in capsys.readouterr().out
    tree = read_tree("(S (NP (DT a) (NN dog)) (VP (XX barks)))", "here")
    assert draw(tree) == "S\n├─ NP\n│  ├─ DT a\n│  └─ NN dog\n└─ VP\n   └─ barks"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pretty", "--json"], "--pretty draws trees and --json writes objects: choose one."),
        (["-n", "3"], "--n-best is 3, but a beam of 2 finds no more than 2: set --beam to 3 or more."),
        (["--top-k", "3"], "--top-k applies to sampling: add --sample."),
        (
            ["--max-extra", "1"],
            "Sentence 1 has 2 words, but its tree may have 3 tokens only, and needs at least 5: raise --max-extra.",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_line(
    model: Path, options: list[str], message: str, capsys: Capture
) -> None:
    assert parse(model, *options, "--text", "w1 w2") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"heedful: error: {message}")


def test_a_parser_is_evaluated_on_its_corpus_or_on_two_files(model: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(["evaluate", str(model), "--split", "valid", "--device", "cpu", "--unconstrained"]) == 0
    shown = capsys.readouterr().out
    assert "F1 up to 40 words" in shown
    assert "well-formed" in shown
    sentences, trees = tmp_path / "some.txt", tmp_path / "some.trees"
    sentences.write_text("w1 w2\n")
    trees.write_text("(S (NP (DT w1) (NN w2)))\n")
    files = ["--source", str(sentences), "--target", str(trees)]
    assert run(["evaluate", str(model), "--device", "cpu", "--json", *files]) == 0
    (corpus,) = json.loads(capsys.readouterr().out)["corpora"]
    assert corpus["sentences"] == corpus["well_formed"] == 1
    trees.write_text("(S (NP (DT w1) (NN w3)))\n")
    assert run(["evaluate", str(model), "--device", "cpu", *files]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "some.trees, line 1: word 2 of the tree is `w3`, but that of the sentence is `w2`: a tree is over exactly the "
        "words of its sentence."
    )
