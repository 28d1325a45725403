"""`heedful import` as a user sees it."""

import json
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from tests.unit.interop.marian_folders import some_texts, write_marian

from heedful.cli.main import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_marian(tmp_path / "opus-mt-en-de")
    return tmp_path / "opus-mt-en-de"


def test_a_marian_folder_becomes_a_model_that_translates(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "opus"
    assert run(["import", str(folder), "--out", str(out)]) == 0
    parameters = sum(tensor.size for tensor in load_file(out / "model.safetensors").values())
    assert capsys.readouterr() == (
        f"{folder} (marian, {parameters:,} parameters) is now a model of Heedful in {out}\n",
        f"heedful: next: heedful translate {out} < text.txt\n",
    )
    (tmp_path / "text").write_text("\n".join(some_texts(3)) + "\n")
    assert run(["translate", str(out), str(tmp_path / "text"), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.count("\n") == 3


def test_a_model_goes_to_a_run_folder_of_its_name(
    folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["import", "opus-mt-en-de/"]) == 0
    assert capsys.readouterr().out.endswith(" in runs/opus-mt-en-de\n")
    assert (tmp_path / "runs/opus-mt-en-de/model.safetensors").exists()


def test_a_model_of_several_languages_is_asked_for_one(tmp_path: Path, capsys: Capture) -> None:
    write_marian(tmp_path / "opus", codes=[">>fr<<", ">>it<<"])
    assert run(["import", str(tmp_path / "opus"), "--out", str(tmp_path / "out")]) == 0
    assert "heedful translate out --to fr < text.txt" in (tmp_path / "out/README.md").read_text()
    (tmp_path / "text").write_text("The old house\n")
    translate = ["translate", str(tmp_path / "out"), str(tmp_path / "text"), "--device", "cpu"]
    capsys.readouterr()
    assert run([*translate, "--to", "it"]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert run(translate) == 2
    assert "begin it with one of <2fr>, <2it>, or use `--to`" in capsys.readouterr().err


def test_the_name_of_a_model_on_the_hub_is_to_be_downloaded_first(capsys: Capture) -> None:
    assert run(["import", "Helsinki-NLP/opus-mt-en-de"]) == 2
    assert capsys.readouterr().err == (
        "heedful: error: Helsinki-NLP/opus-mt-en-de is not a folder. If it is the name of a model on the Hugging Face "
        "hub, download it first with `hf download Helsinki-NLP/opus-mt-en-de --local-dir opus-mt-en-de`, then "
        "`heedful import opus-mt-en-de`.\n"
    )


def test_an_import_may_be_told_as_json(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(["import", str(folder), "-o", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["model"], told["type"]) == (str(tmp_path / "out"), "marian")
    assert told["parameters"] > 0


@pytest.mark.parametrize(
    ("moved", "line"),
    [
        ("config.json", "has no config.json"),
        ("target.spm", "has no target.spm, which a marian model needs"),
        ("model.safetensors", "save it with"),
    ],
)
def test_mistakes_are_one_line(folder: Path, tmp_path: Path, capsys: Capture, moved: str, line: str) -> None:
    (folder / moved).rename(folder / "pytorch_model.bin")
    assert run(["import", str(folder), "--out", str(tmp_path / "out")]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"heedful: error: {folder}")
    assert shown.err.count("\n") == 1
    assert line in shown.err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_a_model_is_not_written_over(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    assert run(["import", str(folder), "--out", str(out)]) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    capsys.readouterr()
    assert run(["import", str(folder), "--out", str(out)]) == 2
    assert capsys.readouterr().err == f"heedful: error: {out} already holds a model: choose another --out.\n"
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
