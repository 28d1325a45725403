"""`heedful report`: where the page goes, and what is refused."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from tests.shared.refusals import like

from heedful.cli.main import run

GOLDEN = Path(__file__).parents[2] / "golden" / "runs"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two runs of an earlier version: translators."""
    for name in ("recurrent", "transformer"):
        shutil.copytree(GOLDEN / name / "run", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_of_a_run_is_in_its_folder(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "transformer"]) == 0
    page = Path("transformer/report.html").read_text()
    assert "<h1>Report of transformer</h1>" in page
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"heedful: transformer/report.html ({len(page.encode()) / 1000:,.0f} kB): open it in a browser.\n"


def test_the_page_of_several_runs_is_where_the_command_runs_or_where_it_says(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", "transformer", "recurrent"]) == 0
    page = Path("report.html").read_text()
    assert "<h1>Report of 2 runs</h1>" in page
    assert run(["report", "transformer", "recurrent", "-o", "-"]) == 0
    assert capsys.readouterr().out.strip() == page.strip()
    assert not Path("transformer/report.html").exists()


def test_json_has_what_the_run_recorded(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "transformer", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    lines = [json.loads(line) for line in Path("transformer/metrics.jsonl").read_text().splitlines()]
    assert found["train"] == [line for line in lines if line["part"] == "train"]
    assert found["valid"] == [line for line in lines if line["part"] == "valid"]
    assert (found["task"], found["state"], found["step"], found["steps"]) == ("translate", "stopped", 10, 20)
    assert found["recipe"]["model"]["family"] == "transformer"


def test_what_is_not_a_run_is_refused_in_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "."]) == 2
    assert capsys.readouterr() == (
        "",
        like("heedful: error: . holds no config.json: a run is a folder that ...\n"),
    )
    assert run(["report", "transformer", "-o", "none/page.html"]) == 2
    assert "none/page.html: there is no folder none" in capsys.readouterr().err


def test_a_report_does_not_import_torch(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it fails
    assert run(["report", "transformer"]) == 0


# --- with --evaluate --------------------------------------------------------------------------------------------------


@pytest.fixture
def reversing_run(reversing_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model that reverses sentences, as a run: it has a line of metrics."""
    shutil.copytree(reversing_folder, tmp_path / "mine")
    (tmp_path / "mine/metrics.jsonl").write_text('{"step": 10, "part": "train", "loss": 1.0}\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine"


def test_an_evaluated_run_shows_its_best_and_worst_sentences(
    reversing_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", "mine", "--evaluate", "--device", "cpu", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["runs"][0]["test"]
    assert (first["name"], first["title"], second["name"]) == ("1", "first.in + first.out", "second")
    assert len(first["items"]["best"]) == 5
    assert all(one["score"] < 99.9 and one["output"] != one["reference"] for one in first["items"]["worst"])
    assert first["items"]["score"] == "chrf"
    assert sum(group["size"] for group in first["items"]["lengths"]) == first["items"]["size"] == 40
    assert {"bleu", "perplexity"} < set(first["scores"])


def test_the_page_of_an_evaluated_run_has_its_test_sets(
    reversing_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", "mine", "--evaluate", "--device", "cpu"]) == 0
    page = Path("mine/report.html").read_text()
    assert "<h3>first.in + first.out</h3>" in page
    assert "<h3>second</h3>" in page
    assert page.count("<h4>Best sentences by chrF</h4>") == 2
    assert capsys.readouterr().err.endswith("open it in a browser.\n")


def test_what_cannot_be_evaluated_is_refused_in_one_line(
    reversing_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", "mine", "--device", "cpu"]) == 2
    assert capsys.readouterr().err == "heedful: error: --device is for --evaluate: add it, or leave out --device.\n"
    (reversing_run / "model.safetensors").unlink()
    assert run(["report", "mine", "--evaluate"]) == 2
    assert capsys.readouterr().err == (
        "heedful: error: mine holds no model.safetensors yet, as training has not reached its first validation: leave "
        "out --evaluate until it has.\n"
    )
    config = json.loads((reversing_run / "config.json").read_text())
    config["recipe"]["data"]["test"] = []
    (reversing_run / "config.json").write_text(json.dumps(config))
    assert run(["report", "mine", "--evaluate"]) == 2
    assert capsys.readouterr().err == (
        "heedful: error: mine: its recipe has no `data.test`, so that there is nothing to evaluate its model on: leave "
        "out --evaluate; `heedful evaluate` scores models on other corpora.\n"
    )
    assert not (reversing_run / "report.html").exists()
