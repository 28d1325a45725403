"""`heedful score --rerank` as a user sees it."""

import json
from pathlib import Path

import pytest
from tests.shared.refusals import like

from heedful.cli.main import run
from heedful.tasks.translate.model import Translator

Capture = pytest.CaptureFixture[str]
MOSES = """\
0 ||| ant bee ||| LM0= -1.5 ||| -0.5
0 ||| bee ant ||| LM0= -2.5 ||| -0.9
2 ||| gnu fox ||| LM0= -2 ||| -3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("x.in").write_text("ant bee\ncat\nfox gnu\n")
    Path("moses.txt").write_text(MOSES)
    Path("table.tsv").write_text("ant bee\tant bee\t-0.5\nant bee\tbee ant\t-0.9\nfox gnu\tgnu fox\t-3\n")
    return tmp_path


def rerank(model: Path, *arguments: str) -> int:
    return run(["score", str(model), "--device", "cpu", "--rerank", *arguments])


def test_the_best_of_each_list_is_written(reversing_folder: Path, folder: Path, capsys: Capture) -> None:
    for arguments in (["moses.txt", "--source", "x.in"], ["table.tsv"]):
        assert rerank(reversing_folder, *arguments) == 0
        assert capsys.readouterr().out == "bee ant\ngnu fox\n"


def test_whole_lists_are_written_as_they_were_read(
    reversing_folder: Path, reversing: Translator, folder: Path, capsys: Capture
) -> None:
    best, other = reversing.rerank("ant bee", ["ant bee", "bee ant"])
    assert rerank(reversing_folder, "moses.txt", "--source", "x.in", "--all") == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == f"0 ||| bee ant ||| LM0= -2.5 ||| {best.score:.4f}"
    assert second == f"0 ||| ant bee ||| LM0= -1.5 ||| {other.score:.4f}"
    assert third.startswith("2 ||| gnu fox ||| LM0= -2 ||| -")
    assert rerank(reversing_folder, "table.tsv", "--all") == 0
    assert capsys.readouterr().out.splitlines()[0] == f"ant bee\tbee ant\t{best.score:.4f}"


def test_objects_have_everything(reversing_folder: Path, folder: Path, capsys: Capture) -> None:
    assert rerank(reversing_folder, "table.tsv", "--json", "--weight", "1000", "--length-penalty", "0") == 0
    first, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["source"] == "ant bee"
    best = first["candidates"][0]
    assert best["text"] == "ant bee"  # its own score weighs more
    assert best["model_score"] == best["log_probability"]
    assert best["score"] == pytest.approx(best["model_score"] - 500)
    assert (best["given"], best["index"]) == (-0.5, 0)


@pytest.mark.parametrize("line", ["0 ||| bee ant", "0 ||| bee ant ||| -0.5", "0 ||| bee ant ||| a= 1"])
def test_features_and_scores_may_be_missing(line: str, reversing_folder: Path, folder: Path, capsys: Capture) -> None:
    Path("short.txt").write_text(f"{line}\n")
    assert rerank(reversing_folder, "short.txt", "--source", "x.in") == 0
    assert capsys.readouterr().out == "bee ant\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("bee ant", "line 1 has no `|||`, but must be `id ||| text ||| features ||| score`."),
        ("3 ||| a", "line 1 has the id `3`, but an id must be the number of a line of x.in, from 0 to 2."),
        ("x ||| a", "line 1 has the id `x`, but an id must be the ... x.in, from 0 to 2."),
        (
            "1 ||| cat\n0 ||| ant",
            "line 2 has the id 0 after 1: ids must ascend, with all lines of one together.",
        ),
        ("0 ||| a ||| b ||| c", "line 1 has the score `c`, but a score must be a number."),
    ],
)
def test_mistakes_in_lists_of_moses_are_one_line(
    lines: str, message: str, reversing_folder: Path, folder: Path, capsys: Capture
) -> None:
    Path("n.txt").write_text(f"{lines}\n")
    assert rerank(reversing_folder, "n.txt", "--source", "x.in") == 2
    assert capsys.readouterr().err == like(f"heedful: error: n.txt, {message}\n")


def test_a_list_without_candidates_is_refused(reversing_folder: Path, folder: Path, capsys: Capture) -> None:
    Path("n.txt").write_text("")
    assert rerank(reversing_folder, "n.txt", "--source", "x.in", "-o", "best.txt") == 2
    assert capsys.readouterr().err == "heedful: error: n.txt: no candidate, but --rerank needs at least one line.\n"
    assert not Path("best.txt").exists()


_NOT_FOR = "is not for --rerank, which reads lists of candidates: leave it out."


@pytest.mark.parametrize(
    ("lines", "arguments", "message"),
    [
        (
            "ant",
            [],
            "n.txt, line 1 has 1 column, but must have a source, a translation and possibly a score, separated by "
            "tabs; lines with `|||` need --source.",
        ),
        ("ant\tant\tx", [], "n.txt, line 1 has the score `x`, but a score must be a number."),
        (
            "ant\tant",
            ["--weight", "1"],
            "n.txt, line 1 has a candidate without a ... 1 cannot weigh: leave out the weight.",
        ),
        ("ant\tant\t1", ["--weight", "nan"], "--weight is nan, but must be a number."),
        ("ant\tant", ["--target", "x.in"], f"--target {_NOT_FOR}"),
        ("ant\tant", ["--tokens"], f"--tokens {_NOT_FOR}"),
        ("ant\tant", ["--json", "--all"], "--json has the whole list in every object: leave out --all."),
    ],
)
def test_mistakes_are_one_line(
    lines: str, arguments: list[str], message: str, reversing_folder: Path, folder: Path, capsys: Capture
) -> None:
    Path("n.txt").write_text(f"{lines}\n")
    assert rerank(reversing_folder, "n.txt", *arguments) == 2
    assert capsys.readouterr().err == like(f"heedful: error: {message}\n")


@pytest.mark.parametrize("option", [["--all"], ["--weight", "0.5"], ["--length-penalty", "1"]])
def test_options_of_reranking_need_it(option: list[str], reversing_folder: Path, folder: Path, capsys: Capture) -> None:
    assert run(["score", str(reversing_folder), "table.tsv", *option]) == 2
    assert capsys.readouterr().err == f"heedful: error: {option[0]} is for --rerank: leave it out.\n"
