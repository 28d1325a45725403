"""A run that is killed at a file operation, or finds the disk full there, ends as if nothing had happened when it is
started again."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.runs.run_folder.failing_disk import FailingDisk, Fault, Killed
from tests.unit.runs.run_folders import Make, silent

from heedful.base.errors import MachineError
from heedful.config.recipe import Recipe
from heedful.runs.training_run import train

# Three validations and checkpoints, of which one is removed, and a mean at the end.
OPTIONS: dict[str, Any] = {
    "steps": 3,
    "log_every": 2,
    "checkpoint_every": 1,
    "validation": {"every": 1},
    "average": {"last": 2},
}
RUN = Path("run")


@pytest.fixture
def recipe(make: Make, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # it writes when it likes
    return make(**OPTIONS)


def enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go where a run, and an empty cache, will be; a model card names its folder, so runs are called the same."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HEEDFUL_CACHE", str(folder / "cache"))


def outcome() -> dict[str, bytes]:
    """Everything that a run leaves, but for what depends on the clock."""
    clocked = ("metrics.jsonl", "position.json", "manifest.json", "report.html", ".lock")
    files = (path for path in RUN.rglob("*") if path.is_file() and path.name not in clocked)
    return {str(path.relative_to(RUN)): path.read_bytes() for path in files}


def undisturbed(recipe: Recipe) -> tuple[dict[str, bytes], list[str]]:
    """Train without a fault; return what is left, and every operation on the way."""
    with FailingDisk().mounted() as disk:
        train(recipe, RUN, console=silent())
    return outcome(), disk.done


def lost(recipe: Recipe, whole: dict[str, bytes], at: int, fault: Fault) -> list[str]:
    """Train with a fault, and again; return the files that are not as they should be.

    A checkpoint that was to be removed when the run ended may still be there.
    """
    with FailingDisk(at, fault).mounted():
        try:
            train(recipe, RUN, console=silent())
        except (Killed, MachineError):
            pass
        else:
            assert fault == "full", f"operation {at} was not reached"  # only metrics are lost on a full disk
    train(recipe, RUN, resume=True, console=silent())
    left = outcome()
    expected = whole.keys() | {name for name in left if not name.startswith("checkpoints/step-")}
    return [f"{at}: {name}" for name in expected if left.get(name) != whole.get(name)]


def test_a_run_that_ends_at_any_kind_of_file_operation_ends_well_when_it_is_started_again(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moments at which most could be lost; the test below has all."""
    enter(tmp_path / "whole", monkeypatch)
    whole, done = undisturbed(recipe)
    first_checkpoint = done.index("rename step-N")
    moments: dict[int, Fault] = {
        done.index("write tokenizer.json"): "killed",  # in the cache
        done.index("replace config.json"): "full",
        done.index("replace model.safetensors") + 1: "killed",  # the first model, and no checkpoint
        first_checkpoint: "full",
        first_checkpoint + 1: "killed",  # a checkpoint that last.json does not name
        done.index("rename step-N", done.index("rename step-N", first_checkpoint + 1) + 1): "killed",
        done.index("rename mean"): "killed",
        done.index("write .report.html"): "full",
    }
    for at, fault in moments.items():
        enter(tmp_path / str(at), monkeypatch)
        assert lost(recipe, whole, at, fault) == []


@pytest.mark.wide
@pytest.mark.parametrize("fault", ["killed", "full"])
def test_a_run_that_ends_at_any_file_operation_ends_well_when_it_is_started_again(
    recipe: Recipe, tmp_path: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(tmp_path / "whole", monkeypatch)
    whole, done = undisturbed(recipe)
    assert {"model.safetensors", "checkpoints/last.json"} <= whole.keys()
    assert len(done) > 100
    files = []
    for at in range(len(done)):
        enter(tmp_path / str(at), monkeypatch)
        files += lost(recipe, whole, at, fault)
    assert files == []
