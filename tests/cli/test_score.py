"""`heedful score` as a user sees it."""

import io
import json
import sys
from pathlib import Path

import pytest

from heedful.api.model import Model
from heedful.cli.main import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    (tmp_path / "x.in").write_text("ant bee\ncat\n")
    (tmp_path / "x.out").write_text("bee ant\nhen\n")
    return ["--source", str(tmp_path / "x.in"), "--target", str(tmp_path / "x.out")]


def score(model: Path, *arguments: str) -> int:
    return run(["score", str(model), "--device", "cpu", *arguments])


def test_a_line_a_pair_in_order(reversing_folder: Path, reversing: Model, pair: list[str], capsys: Capture) -> None:
    assert score(reversing_folder, *pair) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    expected = reversing.score(["ant bee", "cat"], ["bee ant", "hen"])
    assert lines == [[f"{one.log_probability:.4f}", f"{one.per_piece:.4f}"] for one in expected]
    assert float(lines[0][0]) > float(lines[1][0])


def test_tokens_and_objects(reversing_folder: Path, pair: list[str], capsys: Capture) -> None:
    assert score(reversing_folder, *pair, "--tokens") == 0
    total, _, tokens = capsys.readouterr().out.splitlines()[0].split("\t")
    assert tokens.split()[::2] == ["bee", "ant", "</s>"]
    assert sum(map(float, tokens.split()[1::2])) == pytest.approx(float(total), abs=1e-3)
    assert score(reversing_folder, *pair, "--json") == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[0])
    assert shown["pieces"] == ["bee", "ant", "</s>"]
    assert shown["log_probability"] == pytest.approx(sum(shown["log_probabilities"]))


def test_pairs_from_standard_input(
    reversing_folder: Path, pair: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert score(reversing_folder, *pair) == 0
    from_files = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ant bee\tbee ant\ncat\then\n")))
    assert score(reversing_folder) == 0
    assert capsys.readouterr().out == from_files


def test_an_ensemble_of_one_model_twice_scores_the_same(
    reversing_folder: Path, pair: list[str], capsys: Capture
) -> None:
    assert score(reversing_folder, *pair) == 0
    alone = capsys.readouterr().out
    assert score(reversing_folder, *pair, "--with", str(reversing_folder)) == 0
    assert capsys.readouterr().out == alone


def refused(capsys: Capture, model: Path, *arguments: str) -> str:
    assert score(model, *arguments) == 2
    return capsys.readouterr().err.removeprefix("heedful: error: ").rstrip("\n")


def test_mistakes(reversing_folder: Path, pair: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(capsys, reversing_folder, *pair[:2]) == (
        "--target is missing: a translation is scored beside its source."
    )
    assert refused(capsys, reversing_folder, *pair[2:]) == (
        "--source is missing: a translation is scored beside its source."
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ant\tant\nbee\n")))
    message = "standard input, line 2 has no tab between a source and its translation."
    assert refused(capsys, reversing_folder) == message
    Path(pair[3]).write_text("bee\n")
    assert "has 1 lines but" in refused(capsys, reversing_folder, *pair)
