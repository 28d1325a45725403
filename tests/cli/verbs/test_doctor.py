"""`heedful doctor` as a user sees it."""

import io
import json
import re
from pathlib import Path
from typing import NoReturn

import pytest
import torch
from rich.console import Console
from tests.shared.sound_corpora import CORPORA, recipe_of
from tests.shared.sound_corpora import write as write_lines

import heedful
from heedful.cli.main import run
from heedful.config.reading.load import load_recipe, recipe_to_toml
from heedful.doctor import at_start
from heedful.doctor.at_start import warnings_at_start
from heedful.doctor.estimates import memory
from heedful.interop.exports.formats import FORMATS

RECIPE = """
[data]
folder = "{folder}"
train = {{ source = "train.en", target = "train.de" }}
valid = {{ source = "valid.en", target = "valid.de" }}
batch_tokens = 200
[tokenizer]
kind = "word"
[model]
width = 16
heads = 2
layers = 1
inner = 32
[train]
steps = 40
schedule = {{ kind = "constant", lr = 0.01 }}
precision = "float32"
device = "cpu"
threads = 1
"""
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
ZAHLEN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    for side, suffix in ((0, "en"), (1, "de")):
        (folder / f"{name}.{suffix}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")


def pairs(first: int, count: int) -> list[tuple[str, str]]:
    rows = ([n // 100, n // 10 % 10, n % 10] for n in range(first, first + count))
    return [(" ".join(NUMBERS[d] for d in row), " ".join(ZAHLEN[d] for d in row)) for row in rows]


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    write(tmp_path, "train", pairs(0, 400))
    write(tmp_path, "valid", pairs(500, 20))
    path = tmp_path / "tiny.toml"
    path.write_text(RECIPE.format(folder=tmp_path))
    return path


def test_a_clean_recipe_is_reported_on_standard_output_within_80_columns(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", str(recipe)]) == 0
    shown = capsys.readouterr()
    assert max(map(len, shown.out.splitlines())) <= 80
    for words in (
        "  train               400 pairs  train.en + train.de",
        "vocabulary",
        "parameters",
        "batch fill",
        "FLOP per update",
        "activations",
        "target tokens/s",
        "as Vaswani et al. 2017 count",
    ):
        assert words in shown.out
    assert "checking train.en + train.de" in shown.err
    assert "checking" not in shown.out


def test_every_format_that_models_are_exported_to_has_a_line(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["--set", "model.positions=alibi", "--set", "model.norm=rezero"]
    assert run(["doctor", str(recipe), "--quick", *keys]) == 0
    _, _, shown = capsys.readouterr().out.partition("\nExport\n")
    assert [line.split()[0] for line in shown.splitlines() if not line.startswith("   ")] == [*FORMATS]
    assert re.search(r"^  ctranslate2   no, because of `model.positions`: ", shown, re.MULTILINE)
    assert " (and 1 more)" in shown
    assert re.search("^  onnx          yes$", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= 80


def test_findings_come_first_with_file_lines_example_and_remedy(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pairs(0, 400)
    rows[6] = ("one \x07 two", "eins zwei")
    write(tmp_path, "train", rows)
    assert run(["doctor", str(recipe), "--quick", "--set", "tokenizer.joint=false"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^  vocabulary  source: \d+ pieces$", shown, re.MULTILINE)
    assert re.search(r"^  vocabulary  target: \d+ pieces$", shown, re.MULTILINE)
    assert shown.startswith(
        "warning  train: lines with control characters: 1 of 400 (0.25%)\n"
        "         train.en, line 7\n"
        "         “one \\x07 two”\n"
        "         > Remove them: they split words invisibly.\n"
    )
    assert "the ten training steps were left out" in shown


def test_lines_dropped_by_max_line_are_counted(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "train", [*pairs(0, 400), ("one " * 40, "eins")])
    assert run(["doctor", str(recipe), "--quick", "--set", "data.max_line=120"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "note train: dropped: 1 of 401 for `data.max_line`" in shown
    assert "dropped: 0 empty, 0 too long, 0 by ratio, 1 by `data.max_line`" in shown


def test_with_strict_a_warning_ends_with_2(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", str(recipe), "--quick", "--strict"]) == 0  # notes are none
    write(tmp_path, "train", [*pairs(0, 400), ("lost \ufffd", "x")])
    assert run(["doctor", str(recipe), "--quick"]) == 0
    capsys.readouterr()
    assert run(["doctor", str(recipe), "--quick", "--strict"]) == 2
    shown = capsys.readouterr()
    assert "U+FFFD" in shown.out
    assert shown.err.endswith(
        f"heedful: error: {recipe}: 1 warning, listed in the report: fix the data or the recipe before training.\n"
    )


def test_a_problem_ends_with_2_after_the_report(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "valid", pairs(0, 20))
    assert run(["doctor", str(recipe), "--quick"]) == 2
    shown = capsys.readouterr()
    assert "problem  valid: pairs whose source is also in train: 20 of 20 (100.00%)" in shown.out
    assert "Memory of the largest micro-batch" in shown.out
    assert f"{recipe}: 2 problems, listed in the report" in shown.err


def test_a_model_that_does_not_fit_into_the_memory_of_a_gpu_is_reported(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> NoReturn:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(memory, "saved_bytes", full)
    monkeypatch.setattr(memory, "_available", lambda device: 2**30)
    assert run(["doctor", str(recipe)]) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith(
        "problem  run: a step needs more memory than is free, but the device has 1.0 GiB\n"
        "         > Lower `data.batch_tokens`"
    )
    of_memory = shown.out.partition("Memory of the largest micro-batch\n")[2].partition("\n\n")[0]
    labels = [line.split()[0] for line in of_memory.splitlines() if line.endswith("MiB")]
    assert labels == ["weights", "gradients", "optimizer", "device"]
    assert "the ten training steps were left out" in shown.out
    assert f"{recipe}: 1 problem, listed in the report" in shown.err


def test_json_is_one_object_with_everything(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.json"
    assert run(["doctor", str(recipe), "--json", "-o", str(out), "--quick", "-q", "--set", "train.steps=7"]) == 0
    assert capsys.readouterr() == ("", "")
    report = json.loads(out.read_text())
    assert set(report) == {"findings", "corpora", "classes", "sizes", "pieces", "run", "memory", "time", "export"}
    assert report["export"]["ctranslate2"] == []
    assert report["run"]["updates"] == 7
    assert report["corpora"][0] == {"part": "train", "name": "train.en + train.de", "rows": 400, "unit": "pairs"}
    assert report["time"] is None


def test_a_recipe_that_cannot_train_is_one_line_and_2(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", str(recipe), "--set", "data.folder=nowhere"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "no such file" in shown.err
    assert "Traceback" not in shown.err


# --- other tasks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def classifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    corpora = CORPORA["classify"]()
    corpora["train.tsv"].insert(0, "text\tlabel")
    corpora["train.tsv"][9] = "Nobody knows why.\tmystery"
    write_lines(tmp_path, corpora)
    path = tmp_path / "classes.toml"
    path.write_text(recipe_to_toml(recipe_of("classify", tmp_path, train={"steps": 3})))
    return path


def test_a_classifier_is_examined_too(classifier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", str(classifier), "--quick"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.startswith(
        "warning  train: the first line looks like the names of columns: “text | label”\n         train.tsv, line 1\n"
    )
    assert (
        "warning  train: classes with fewer than 5 texts: `label` (1), `mystery` (1)\n         train.tsv, lines 1, 10\n"
        in shown
    )
    assert "  train               401 texts  train.tsv\n" in shown
    assert "FLOP per update" not in shown  # counted for networks that map one sequence to another


def test_a_run_starts_with_a_few_warnings_and_is_not_stopped(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(["train", str(classifier), "--out", str(out)]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("heedful: warning: ")]
    assert told[0].startswith("heedful: warning: train.tsv, line 1: the first line looks like the names of columns")
    assert told[1] == (
        "heedful: warning: train.tsv, line 1: classes with fewer than 5 texts: `label` (1), `mystery` (1). They are "
        "hardly learned: collect more texts, join them with another class, or remove them."
    )
    assert told[-1] == f"heedful: warning: 1 more; `heedful doctor {classifier}` lists everything"
    assert len(told) == 4
    assert run(["train", str(classifier), "--out", str(out), "--resume"]) == 0
    assert "warning: train.tsv" not in capsys.readouterr().err


def test_a_run_in_python_starts_with_the_same_warnings(classifier: Path, tmp_path: Path) -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=1000)
    heedful.train(classifier, tmp_path / "run", console=console)
    told = [line for line in shown.getvalue().splitlines() if line.startswith("warning: ")]
    *warnings, note = warnings_at_start(load_recipe(str(classifier)), str(classifier))
    assert told == warnings
    assert len(told) == 4
    assert note.startswith("note: 401 texts are few. ")
    assert shown.getvalue().count(note) == 1
    heedful.train(classifier, tmp_path / "run", resume=True, console=console)
    assert shown.getvalue().count("names of columns") == 1, "a resumed run does not repeat them"
    recipe = load_recipe(str(classifier))
    assert warnings_at_start(recipe)[-2] == "warning: 1 more"


def test_what_cannot_be_read_is_left_to_training(tmp_path: Path) -> None:
    assert warnings_at_start(recipe_of("fill", tmp_path), "my.toml") == []


def test_a_few_odd_characters_in_much_text_are_not_told_before_training(tmp_path: Path) -> None:
    corpora = CORPORA["classify"]()
    for odd, told in ((1, 0), (8, 1)):
        corpora["train.tsv"][:odd] = [f"Tom &amp; Ann, number {n}\tnews" for n in range(odd)]
        write_lines(tmp_path, corpora)
        lines = warnings_at_start(recipe_of("classify", tmp_path), "my.toml")[:-1]  # the last one is a note
        assert [line for line in lines if "HTML entities: 8 of 400" in line] == lines
        assert len(lines) == told


def test_a_fault_in_the_checks_never_stops_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> NoReturn:
        raise AssertionError("a fault")

    monkeypatch.setattr(at_start, "check_data", broken)
    assert warnings_at_start(recipe_of("fill", tmp_path), "my.toml") == []
