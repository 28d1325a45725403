"""What a run folder may hold when training begins: each state resumes, begins again, or is refused in one line."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from tests.shared.refusals import refuses
from tests.unit.runs.run_folders import Make, kept, same_bits, silent, told

from heedful.base.errors import Stopped, UserError
from heedful.runs.run import RunObserver
from heedful.runs.run_folder import clear_begun
from heedful.runs.training_run import train
from heedful.training.checkpoints import Position, load_checkpoint
from heedful.training.trainer import StepMetrics


class Ended(BaseException):
    """What ends a run in these tests."""


@pytest.fixture
def begun(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that ended between its first model and its first checkpoint."""

    def end(*_: object) -> None:
        raise Ended

    with monkeypatch.context() as patch:
        patch.setattr(RunObserver, "checkpoint", end)
        with pytest.raises(Ended):
            train(make(validation={"every": 5}), tmp_path / "run", console=silent())
    assert (tmp_path / "run/model.safetensors").exists()
    return tmp_path / "run"


def test_a_run_that_ended_before_its_first_checkpoint_begins_again(make: Make, tmp_path: Path, begun: Path) -> None:
    console = silent()
    train(make(validation={"every": 5}), begun, resume=True, console=console)
    assert f"{begun} has no checkpoint: training starts from the beginning.\n" in told(console)
    whole = train(make(validation={"every": 5}), tmp_path / "whole", console=silent())
    same_bits(whole / "model.safetensors", begun / "model.safetensors")


def test_its_model_is_not_trained_over_unless_resume_is_given(make: Make, begun: Path) -> None:
    before = (begun / "model.safetensors").read_bytes()
    with refuses("...run already holds a run: add `resume=True` to start it again, or..."):
        train(make(validation={"every": 5}), begun, console=silent())
    with refuses("...was trained with `train.seed` = 1, but the recipe says 7: resume with the sa..."):
        train(make(validation={"every": 5}, seed=7), begun, resume=True, console=silent())
    assert (begun / "model.safetensors").read_bytes() == before


def test_a_checkpoint_that_last_json_does_not_name_yet_is_resumed_from(make: Make, tmp_path: Path) -> None:
    whole = train(make(), tmp_path / "whole", console=silent())
    run = train(make(steps=5), tmp_path / "run", console=silent())
    for pointer in ('{"folder": null}', None):
        (run / "checkpoints/last.json").unlink()
        if pointer:
            (run / "checkpoints/last.json").write_text(pointer)
        with refuses("...already holds a run: add `resume=True` to continue it..."):
            train(make(steps=5), run, console=silent())
        train(make(steps=5), run, resume=True, console=silent())
    train(make(), run, resume=True, console=silent())
    same_bits(whole / "model.safetensors", run / "model.safetensors")


def test_a_folder_with_nothing_but_a_description_begins(make: Make, tmp_path: Path) -> None:
    """As an earlier version left it before its first model; the recipe may be another one."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text("{")
    (run / "notes.txt").write_text("mine")
    train(make(steps=5), run, console=silent())
    assert (run / "notes.txt").read_text() == "mine"
    assert "formerly" not in json.loads((run / "config.json").read_text())


@pytest.mark.parametrize("place", ["", "single", "mean"])
@pytest.mark.parametrize("resume", [False, True])
def test_a_model_that_no_run_begun_here_made_is_never_trained_over(
    make: Make, tmp_path: Path, place: str, resume: bool
) -> None:
    model = tmp_path / "run" / place / "model.safetensors"
    model.parent.mkdir(parents=True)
    model.write_bytes(b"weights")
    with refuses("...run already holds a model, but no checkpoint to resume from: choose another..."):
        train(make(), tmp_path / "run", resume=resume, console=silent())
    assert model.read_bytes() == b"weights"


# --- two at once --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_in_which_another_process_trains_is_refused(make: Make, tmp_path: Path, resume: bool) -> None:
    (tmp_path / "run").mkdir()
    with FileLock(tmp_path / "run/.lock"):
        words = r"run is in use: another process is training there\. Wait for its end, or choose another folder\.$"
        with pytest.raises(UserError, match=words):
            train(make(), tmp_path / "run", resume=resume, console=silent())
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    train(make(steps=2), tmp_path / "run", resume=resume, console=silent())


def test_a_folder_that_another_process_created_in_the_meantime_is_refused(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, recipe, overtaken = RunObserver.__init__, make(steps=5), []

    def overtake(self: RunObserver, job: Any, run: Path, *more: Any) -> None:
        if run not in overtaken:
            overtaken.append(run)
            train(recipe, run, console=silent())
        began(self, job, run, *more)

    monkeypatch.setattr(RunObserver, "__init__", overtake)
    with refuses("...one already holds a run: add `resume=True` to continue it..."):
        train(recipe, tmp_path / "one", console=silent())
    with refuses("...two was created by another process in the meantime: run the same command ag..."):
        train(recipe, tmp_path / "two", resume=True, console=silent())


# --- signals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_start_up_ends_at_once_and_leaves_no_folder(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def signalled(*_: object) -> None:
        os.kill(os.getpid(), number)
        pytest.fail("it went on")

    monkeypatch.setattr("heedful.runs.training_run.prepare_job", signalled)
    with pytest.raises(Stopped, match=r"^Stopped before the first step: there was nothing to save\.$") as stopped:
        train(make(), tmp_path / "run", console=silent())
    assert stopped.value.exit_code == 128 + number
    assert not (tmp_path / "run").exists()


def test_a_signal_while_the_mean_is_made_says_that_the_checkpoint_is_saved(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("heedful.runs.run.mean_weights", lambda _: os.kill(os.getpid(), signal.SIGTERM))
        with refuses("Stopped after the last step, checkpoint saved. Train with `resume=True` ...", Stopped):
            train(make(average={"last": 2}), tmp_path / "run", console=silent())
    train(make(average={"last": 2}), tmp_path / "run", resume=True, console=silent())
    assert (tmp_path / "run/mean").exists() or (tmp_path / "run/single").exists()


def test_sigusr1_saves_and_training_continues(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[int] = []
    checkpoint, metrics = RunObserver.checkpoint, RunObserver.step_metrics

    def note(self: RunObserver, position: Position) -> None:
        checkpoint(self, position)
        saved.append(position.step)

    def signalled(self: RunObserver, shown: StepMetrics, logged: bool) -> None:
        metrics(self, shown, logged)
        if logged:
            os.kill(os.getpid(), signal.SIGUSR1)

    whole = train(make(log_every=4), tmp_path / "whole", console=silent())
    monkeypatch.setattr(RunObserver, "checkpoint", note)
    monkeypatch.setattr(RunObserver, "step_metrics", signalled)
    console = silent()
    run = train(make(log_every=4), tmp_path / "run", console=console)
    assert saved == [4, 5, 8, 10, 12]
    assert [line for line in told(console).splitlines() if "SIGUSR1" in line] == [
        f"Checkpoint saved at step {step}, as SIGUSR1 requested" for step in (4, 8, 12)
    ]
    assert kept(run) == kept(whole)
    same_bits(whole / "model.safetensors", run / "model.safetensors")


# --- odd content --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"threads": 1_000_000}, r"`facts.threads` is 1000000, but must be a whole number from 1 to 4,096: the checkp"),
        ({"threads": "2"}, r'`facts.threads` is "2", but must be a whole number from 1 to 4,096'),
        ({"threads": True}, r"`facts.threads` is true, but must be"),
        ({"precision": "float3"}, r'`facts.precision` is "float3", but must be one of float32, bfloat16'),
        ({"precision": []}, r"`facts.precision` is \[\], but must be one of"),
        ({"data": {}}, r"`facts.data` is \{\}, but must be a list of hashes: the checkpoint is damaged, train again"),
        ({"data": None}, r"`facts.data` is null, but must be a list of hashes"),
    ],
)
def test_odd_facts_of_a_checkpoint_are_refused(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any], words: str
) -> None:
    run = train(make(steps=2), tmp_path / "run", console=silent())

    def odd(*arguments: Any) -> Position:
        position = load_checkpoint(*arguments)
        position.facts |= facts
        return position

    monkeypatch.setattr("heedful.runs.job.load_checkpoint", odd)
    with pytest.raises(UserError, match=words):
        train(make(), run, resume=True, console=silent())


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl", "config.json", "mean", "checkpoints/last.json"])
def test_a_link_out_of_the_folder_of_a_run_is_refused_and_what_it_leads_to_stays(
    name: str, make: Make, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("not ours\n")
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    (tmp_path / "run" / name).symlink_to(theirs)
    with refuses(
        f"{tmp_path}/run/{name} is a link to {theirs}, which is outside of the run's folder, and training would change "
        "it: remove the link, or put a copy in its place."
    ):
        train(make(steps=2), tmp_path / "run", resume=True, console=silent())
    assert theirs.read_text() == "not ours\n"


def test_a_pipe_in_place_of_a_model_is_refused_and_not_waited_for(make: Make, tmp_path: Path) -> None:
    train(make(steps=2), tmp_path / "run", console=silent())
    (tmp_path / "run/model.safetensors").unlink()
    os.mkfifo(tmp_path / "run/model.safetensors")
    with refuses(f"{tmp_path}/run/model.safetensors: this is a pipe or a device..."):
        train(make(steps=4), tmp_path / "run", resume=True, console=silent())


def test_checkpoints_may_be_on_another_disk(make: Make, tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/checkpoints").symlink_to(tmp_path / "large")
    train(make(steps=2), tmp_path / "run", console=silent())
    train(make(steps=3), tmp_path / "run", resume=True, console=silent())
    assert sorted(path.name for path in (tmp_path / "large").iterdir())[-1].startswith("step-")


def test_a_folder_with_a_run_that_has_only_begun_is_emptied_unless_a_process_trains_there(
    make: Make, begun: Path, tmp_path: Path
) -> None:
    before = sorted(path.name for path in begun.iterdir())
    assert {"model.safetensors", "checkpoints"} < set(before)
    with FileLock(begun / ".lock"), refuses("...run is in use: ..."):
        clear_begun(begun)
    assert sorted(path.name for path in begun.iterdir()) == before
    clear_begun(begun)
    assert [path.name for path in begun.iterdir()] == [".lock"]
    clear_begun(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    saved = train(make(steps=2), tmp_path / "saved", console=silent())
    clear_begun(saved)
    assert (saved / "model.safetensors").exists()
