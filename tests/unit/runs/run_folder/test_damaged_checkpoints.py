"""A damaged checkpoint costs the updates since the one before, and is never loaded; nothing else of a run is lost."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.shared.covering import one_in
from tests.shared.refusals import refuses
from tests.unit.runs.run_folders import Make, kept, same_bits, silent, told

from heedful.runs.callbacks import Callback
from heedful.runs.progress import recorded_metrics
from heedful.runs.training_run import train
from heedful.training.checkpoints import last_checkpoint, seconds_trained

OPTIONS: dict[str, Any] = {"steps": 12, "checkpoint_every": 4, "log_every": 3, "validation": {"every": 4}}
LAST, BEFORE = "step-00000008", "step-00000004"


@pytest.fixture
def whole(make: Make, tmp_path: Path) -> Path:
    """A run that nothing disturbed."""
    return train(make(**OPTIONS), tmp_path / "whole", console=silent())


@pytest.fixture
def stopped(make: Make, tmp_path: Path) -> Path:
    """A run of 8 updates, with two checkpoints."""
    run = train(make(**OPTIONS | {"steps": 8}), tmp_path / "run", console=silent())
    assert kept(run) == [4, 8]
    return run


def resume(make: Make, run: Path, **options: Any) -> str:
    console = silent()
    train(make(**OPTIONS | options), run, resume=True, console=console)
    return told(console)


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "weights": (lambda folder: flip(folder / "model.safetensors"), "/model.safetensors is damaged (its sha256"),
    "position": (lambda folder: flip(folder / "position.json"), "/position.json is damaged (its sha256"),
    "optimizer": (lambda folder: (folder / "optimizer.safetensors").unlink(), "/optimizer.safetensors is missing:"),
    "manifest": (lambda folder: (folder / "manifest.json").write_bytes(bytes(99)), "/manifest.json is damaged:"),
    "folder": (shutil.rmtree, "/manifest.json is missing:"),
}


@pytest.mark.parametrize("name", one_in(2, DAMAGES))
def test_a_run_falls_back_on_the_checkpoint_before(make: Make, whole: Path, stopped: Path, name: str) -> None:
    damage, what = DAMAGES[name]
    damage(stopped / "checkpoints" / LAST)
    said = resume(make, stopped)
    (line,) = [line for line in said.splitlines() if "falls back" in line]
    assert line.startswith(f"{stopped}/checkpoints/{LAST}{what}")
    assert line.endswith(f": the run falls back on {BEFORE}, which costs 4 updates")
    same_bits(whole / "model.safetensors", stopped / "model.safetensors")
    steps = [[entry["step"] for entry in recorded_metrics(run, "train")] for run in (whole, stopped)]
    assert steps[0] == steps[1] == [3, 6, 9, 12]
    assert kept(stopped) == kept(whole) == [8, 12]


def test_a_disk_that_cannot_read_the_last_checkpoint_costs_no_more(
    make: Make, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_bytes

    def failing(path: Path) -> bytes:
        if path.parent.name == LAST and path.name == "optimizer.safetensors":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", failing)
    assert "optimizer.safetensors: the disk reported an input/output error: the run falls back" in resume(make, stopped)


def test_where_all_checkpoints_are_damaged_the_first_is_named(make: Make, stopped: Path) -> None:
    for name in (LAST, BEFORE):
        flip(stopped / "checkpoints" / name / "model.safetensors")
    with refuses(
        f"{stopped}/checkpoints/{LAST}/model.safetensors is damaged (its sha256 is ...), and 1 other checkpoint too: "
        "train again into another folder."
    ):
        resume(make, stopped)


def test_a_damaged_pointer_leads_to_the_newest_checkpoint(make: Make, whole: Path, stopped: Path) -> None:
    pointer = stopped / "checkpoints/last.json"
    for text in ("", "{", '{"folder": "../elsewhere"}', "[" * 100_000):
        pointer.write_text(text)
        assert last_checkpoint(stopped / "checkpoints") == stopped / "checkpoints" / LAST
    said = resume(make, stopped)
    assert f"{pointer} is damaged, as it does not name a checkpoint: {LAST} is the newest one.\n" in said
    same_bits(whole / "model.safetensors", stopped / "model.safetensors")
    pointer.write_text("{")
    shutil.rmtree(stopped / "checkpoints/step-00000008")
    shutil.rmtree(stopped / "checkpoints/step-00000012")
    assert seconds_trained(stopped / "checkpoints") is None  # a model is evaluated without it


def test_a_run_that_goes_back_keeps_its_own_checkpoints_not_later_ones(make: Make, stopped: Path) -> None:
    (stopped / "checkpoints/last.json").write_text(json.dumps({"folder": BEFORE}))
    resume(make, stopped, steps=6)
    assert kept(stopped) == [4, 6]


def test_a_mean_is_made_without_a_damaged_part(make: Make, whole: Path) -> None:
    flip(whole / "checkpoints/step-00000008/model.safetensors")
    said = resume(make, whole, average={"last": 2})
    assert "step-00000008/model.safetensors is damaged (its sha256 is not the manifest's): the mean is made" in said
    assert "Averaged: the mean of 1 checkpoint, steps 12 (2 were requested, but there are no more)" in said


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_best_model_that_is_lost_is_replaced_by_the_next(make: Make, stopped: Path, damage: str) -> None:
    model = stopped / "model.safetensors"
    flip(model) if damage == "damaged" else model.unlink()
    with refuses(
        f"{model} is {damage}, and there is nothing left to train: restore it from a copy, or make a model of the "
        f'last checkpoint with `heedful.average(["{stopped}"], ..., last=1)`.'
    ):
        resume(make, stopped, steps=8)
    said = resume(make, stopped)
    assert f"{model} is {damage}: the best model so far, of step 8, is lost; the next one replaces it\n" in said
    assert "The best model, of step 12, is in" in said


def test_one_checkpoint_is_enough_for_who_says_so(make: Make, tmp_path: Path) -> None:
    assert kept(train(make(**OPTIONS, keep_checkpoints=1), tmp_path / "run", console=silent())) == [12]


class Stops(Callback):
    """Stops a run between two regular checkpoints."""

    def on_step(self, step: int) -> bool:
        return step == 10


@pytest.mark.parametrize("name", ["position", "manifest"])
def test_a_damaged_checkpoint_between_regular_ones_displaces_none_of_them(
    make: Make, tmp_path: Path, name: str
) -> None:
    run = train(make(**OPTIONS), tmp_path / "run", console=silent(), callbacks=[Stops()])
    assert kept(run) == [8, 10]
    DAMAGES[name][0](run / "checkpoints/step-00000010")
    assert "the run falls back on step-00000008, which costs 2 updates" in resume(make, run)
    assert kept(run) == [8, 12]
