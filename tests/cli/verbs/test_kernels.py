"""What the doctor says of the kernels of int8: which there are, what made them, or why there are none."""

import json
from pathlib import Path

import pytest

from heedful.cli.main import run
from heedful.doctor.kernels import Kernels, examine_kernels
from heedful.native import compiler, library

MODEL = Path(__file__).parents[2] / "golden/bundles/transformer"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.doctor.kernels.find_library", lambda: "nobody wrote them")


@pytest.mark.skipif(library.library() is None, reason="the kernels cannot be compiled here")
def test_kernels_are_named_with_what_compiled_them(capsys: Capture) -> None:
    found = examine_kernels()
    assert found.instructions in [each.title for each in compiler.INSTRUCTIONS.values()]
    assert found.library is not None
    assert Path(found.library).is_file()
    assert found.missing is None
    assert run(["doctor", str(MODEL)]) == 0
    printed = capsys.readouterr().out
    assert f"\n\nIn int8, kernels for {found.instructions} compute what they can on this CPU.\n" in printed
    assert f"\n  library     {found.library}\n" in printed
    assert str(found.compiler).split() == printed.split("  compiler ")[1].split("  library ")[0].split()


def test_why_there_are_none_is_said(without_kernels: None, capsys: Capture) -> None:
    assert examine_kernels() == Kernels(missing="nobody wrote them")
    assert run(["doctor", str(MODEL)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "In int8, PyTorch computes everything on this CPU, as nobody wrote them."


def test_they_are_in_the_json(without_kernels: None, capsys: Capture) -> None:
    assert run(["doctor", str(MODEL), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["int8"] == {
        "instructions": None, "compiler": None, "library": None, "missing": "nobody wrote them"
    }  # fmt: skip
