"""`heedful export` as a user sees it."""

import json
from pathlib import Path

import pytest
from benchmarks.interop.random_models import write_random_model

from heedful.cli.main import run
from heedful.interop.exports.formats import Format

Capture = pytest.CaptureFixture[str]
TINY = {"family": "classifier", "encoder": {"family": "transformer", "width": 16, "heads": 2, "layers": 1, "inner": 8}}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_random_model(tmp_path / "model", "classify", model=TINY)


def test_a_model_is_written_and_compared(model: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "lines").write_text("a small bird\ntwo dogs\n")
    out = tmp_path / "out"
    assert run(["export", str(model), "--to", "torch", "-o", str(out), "--compare-on", str(tmp_path / "lines")]) == 0
    written, compared = capsys.readouterr().out.splitlines()
    assert written == f"{model} is written for torch.export in {out}"
    assert compared.startswith(f"Compared on 2 lines of {tmp_path}/lines: equal answers, scores within ")
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "labels.json", "model.pt2", "tokenizer.json"]


def test_an_export_may_be_told_as_json(model: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(["export", str(model), "--to", "torch", "-o", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["model"], told["format"]) == (str(tmp_path / "out"), "torch")
    assert told["compared"]["count"] == 32
    assert told["compared"]["unequal"] == 0


def test_where_the_library_is_missing_it_says_so(
    model: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Format, "can_compare", property(lambda self: False))
    assert run(["export", str(model), "--to", "torch", "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err == (
        "heedful: It was not compared with the original, as torch.export is not installed: `pip install torch`, and "
        "export it again.\n"
    )


def test_a_mistake_is_one_line(model: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(["export", str(model), "--to", "paper", "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("heedful: error: `paper` is not a format: use one of ")
