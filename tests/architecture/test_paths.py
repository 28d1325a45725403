"""A user's action reaches its effect through few files, so that whoever follows it opens few doors."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import heedful
from heedful.cli.main import run
from heedful.config.tasks import TASKS
from heedful.models.transformer.decoder import TransformerDecoder

SOURCES = Path(heedful.__file__).parent
BUNDLE = Path(__file__).parents[1] / "golden" / "bundles" / "transformer"
MOST_FILES = 9


def test_a_translation_reaches_the_step_of_its_decoder_through_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    stacks: list[set[str]] = []
    step = TransformerDecoder.step

    def recorded(self: TransformerDecoder, *arguments: Any) -> Any:
        files, frame = set[str](), sys._getframe(1)
        current: FrameType | None = frame
        while current is not None:
            file = Path(current.f_code.co_filename)
            if file.is_relative_to(SOURCES):
                files.add(str(file.relative_to(SOURCES)))
            current = current.f_back
        stacks.append(files | {"models/transformer/decoder.py"})
        return step(self, *arguments)

    monkeypatch.setattr(TransformerDecoder, "step", recorded)
    monkeypatch.setattr("heedful.native.library.find_library", lambda: "PyTorch computes")  # kernels take whole steps
    assert run(["translate", str(BUNDLE), "--text", "a dog runs", "--device", "cpu"]) == 0
    assert stacks
    assert stacks[0] >= {"cli/verbs/translate.py", "tasks/shared/sequences/pipeline.py", "decode/engine.py"}
    assert len(stacks[0]) <= MOST_FILES, sorted(stacks[0])


EVERYDAY = ("answer", "classify", "fill", "generate", "parse", "tag", "translate")


@pytest.mark.parametrize("task", [name for name in TASKS if name not in EVERYDAY])
def test_a_task_is_named_in_few_files_besides_its_own(task: str) -> None:
    """Tasks whose names are everyday words cannot be counted like this."""
    command = ["git", "grep", "-lwi", task, "--", "src"]
    if shutil.which("git") is None or not (SOURCES.parents[1] / ".git").exists():
        pytest.skip("needs git and a clone")
    listed = subprocess.run(command, cwd=SOURCES.parents[1], capture_output=True, text=True, check=True)
    own = (f"src/heedful/tasks/{task.partition('_')[0]}/", f"src/heedful/cli/verbs/{task}.py")
    scripts = "src/heedful/pages/"  # where a caption is a text below something
    named = [name for name in listed.stdout.splitlines() if not name.startswith((*own, scripts))]
    assert len(named) <= (10 if task == "caption" else 8), named
