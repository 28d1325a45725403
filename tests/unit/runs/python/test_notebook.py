"""In a notebook a run has one output: lines that stay, and one that is updated in place."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.unit.runs.test_progress import READING

from heedful.runs.progress import RunProgress, in_notebook


class ZMQInteractiveShell:
    """By its name a notebook is recognised."""


class Shell(ZMQInteractiveShell):
    """A hosted notebook has a class of its own."""


class Outputs:
    """The outputs of a cell, each as it was last updated."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def display(self, data: dict[str, str], **options: Any) -> SimpleNamespace:
        assert options == {"raw": True, "display_id": True}
        self.texts.append(data["text/plain"])
        index = len(self.texts) - 1

        def update(data: dict[str, str], raw: bool) -> None:
            self.texts[index] = data["text/plain"]

        return SimpleNamespace(update=update)


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> Outputs:
    """A process that seems to run a notebook."""
    found = Outputs()
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = Shell  # type: ignore[attr-defined]
    display.display = found.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return found


def test_a_notebook_has_one_line_that_is_updated(outputs: Outputs, capfd: pytest.CaptureFixture[str]) -> None:
    with RunProgress() as progress:
        progress.say("a model")
        for _ in range(3):
            progress.step_metrics(READING, logged=True)
        (text,) = outputs.texts
        assert text.splitlines()[0] == "a model"
        assert text.count("step 1,500/8,000") == 1
        progress.say("a line")
    assert outputs.texts == ["a model\na line"]
    assert capfd.readouterr() == ("", "")


def test_an_ordinary_process_is_not_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
