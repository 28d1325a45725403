"""The notebook runs from top to bottom, and its outputs are what a reader expects to see."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from tests.docs.blocks import ROOT

NOTEBOOK = ROOT / "docs/guide/quickstart.ipynb"


def _read(path: Path, as_version: int) -> Any:
    return nbformat.read(path, as_version)  # type: ignore[no-untyped-call]


def texts(cell: Any) -> str:
    """What a cell shows, as plain text."""
    shown = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "\n".join(map(str, shown))


@pytest.mark.wide
def test_the_notebook_runs_and_shows_one_updated_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = _read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    training, run, validations, model, translations, scores, mistake = [
        cell for cell in notebook.cells if cell.cell_type == "code"
    ]
    assert len(training.outputs) == 1
    lines = texts(training).splitlines()
    assert any(line.startswith("transformer: ") for line in lines)
    assert any(line.startswith("valid at step 20:") for line in lines)
    assert any(line.startswith("Trained 20 steps") for line in lines)
    assert lines[-1] == 'Next: heedful.load("runs/quickstart").translate(["..."])'
    assert not [line for line in lines if line.startswith("step ")]
    assert texts(run).startswith("<Run runs/quickstart: 20 of 20 steps, best loss ")
    assert texts(validations).count("(") == 2
    assert texts(model).startswith("<Translator: task translate, family transformer, ")
    assert texts(translations).startswith("[")
    assert "'bleu'" in texts(scores)
    assert texts(mistake).startswith("texts, line 2 is None, but must be a text")


def test_the_notebook_is_stored_without_outputs() -> None:
    assert not [cell for cell in _read(NOTEBOOK, as_version=4).cells if cell.get("outputs")]
