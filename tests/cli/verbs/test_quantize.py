"""`heedful quantize` and `--precision int8` as a user sees them."""

import json
import shutil
from pathlib import Path

import pytest
from tests.shared.refusals import like

from heedful.cli.main import run
from heedful.cli.verbs.cache import show_size

MODEL = Path(__file__).parents[2] / "golden/bundles/transformer"
Capture = pytest.CaptureFixture[str]


def test_a_model_is_quantized_and_used(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "int8"
    assert run(["quantize", str(MODEL), "-o", str(out)]) == 0
    printed, noted = capsys.readouterr()
    after, before = (show_size((folder / "model.safetensors").stat().st_size) for folder in (out, MODEL))
    assert printed == f"{MODEL} is in int8 in {out}: {after}, where it had {before}\n"
    assert noted == f"heedful: next: heedful translate {out} < text.txt\n"
    assert run(["translate", str(MODEL), "der Mann", "--precision", "int8"]) == 0
    theirs = capsys.readouterr().out
    assert run(["translate", str(out), "der Mann", "-v"]) == 0
    ours = capsys.readouterr()
    assert ours.out == theirs
    assert "\nheedful: int8: " in f"\n{ours.err}"
    assert run(["translate", str(out), "der Mann"]) == 0
    assert capsys.readouterr().err == ""


def test_what_was_quantized_may_be_told_as_json(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "int8"
    assert run(["quantize", str(MODEL), "-o", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    after, before = ((folder / "model.safetensors").stat().st_size for folder in (out, MODEL))
    following = f"heedful translate {out} < text.txt"
    assert found == {
        "model": str(out), "quantized": str(MODEL), "bytes": after, "before": before, "next": following
    }  # fmt: skip


def test_a_model_is_never_written_over_another(tmp_path: Path, capsys: Capture) -> None:
    there = shutil.copytree(MODEL, tmp_path / "there")
    before = (there / "model.safetensors").read_bytes()
    for out in (there, MODEL):
        assert run(["quantize", str(MODEL), "-o", str(out)]) == 2
        assert capsys.readouterr().err == like(f"heedful: error: {out} already holds a model: choose...\n")
    assert (there / "model.safetensors").read_bytes() == before


def test_a_recipe_trains_in_no_int8(capsys: Capture) -> None:
    assert run(["config", "check", "multi30k-pairs", "--set", "train.precision=int8"]) == 2
    assert "`train.precision`" in capsys.readouterr().err
