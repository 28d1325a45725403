"""Callbacks: when they are called, and how they stop a run."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.shared.covering import one_in
from tests.unit.runs.run_folders import Make, same_bits, silent, told

import heedful
from heedful.base.errors import UserError


@dataclass
class Recorder(heedful.Callback):
    """Records its calls, and stops the run at one of them."""

    stop_at: tuple[str, int] = ("", 0)
    calls: list[tuple[str, int]] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)

    def on_step(self, step: int) -> bool:
        return self._record("step", step, step)

    def on_metrics(self, metrics: heedful.StepMetrics) -> bool:
        return self._record("metrics", metrics.step, metrics)

    def on_validation(self, validation: heedful.Validation) -> bool:
        return self._record("validation", validation.step, validation)

    def on_checkpoint(self, checkpoint: heedful.Checkpoint) -> bool:
        return self._record("checkpoint", checkpoint.step, checkpoint)

    def _record(self, kind: str, step: int, what: object) -> bool:
        self.calls.append((kind, step))
        self.seen.append(what)
        return (kind, step) == self.stop_at


def test_callbacks_are_called_at_steps_logs_validations_and_checkpoints(make: Make, tmp_path: Path) -> None:
    recorder = Recorder()
    run = heedful.train(make(), tmp_path / "run", callbacks=[recorder], quiet=True)
    assert [call for call in recorder.calls if call[0] == "step"] == [("step", step) for step in range(1, 13)]
    assert [call for call in recorder.calls if call[0] != "step"] == [
        ("metrics", 5), ("checkpoint", 5), ("validation", 6), ("metrics", 10), ("checkpoint", 10), ("metrics", 12),
        ("validation", 12), ("checkpoint", 12),
    ]  # fmt: skip
    validation = next(what for what in recorder.seen if isinstance(what, heedful.Validation))
    assert validation.scores == {name: value for name, value in run.validations[0].items() if name != "step"}
    assert validation.best
    assert recorder.seen[-1].folder == run / "checkpoints" / "step-00000012"


@pytest.mark.parametrize("stop_at", one_in(2, [("step", 4), ("metrics", 5), ("validation", 6), ("checkpoint", 5)]))
def test_a_callback_stops_the_run_and_it_resumes_exactly(make: Make, tmp_path: Path, stop_at: tuple[str, int]) -> None:
    console = silent()
    stopped = heedful.train(make(), tmp_path / "run", callbacks=[Recorder(stop_at)], console=console)
    assert max(path.name for path in (stopped / "checkpoints").glob("step-*")) == f"step-{stop_at[1]:08d}"
    message = (
        f"Stopped by a callback at step {stop_at[1]} of 12, checkpoint saved. Train with `resume=True` to continue."
    )
    assert message in told(console)
    resumed = heedful.train(make(), stopped, resume=True, quiet=True)
    whole = heedful.train(make(), tmp_path / "whole", callbacks=[Recorder()], quiet=True)
    same_bits(whole / "model.safetensors", resumed / "model.safetensors")
    assert resumed.validations == whole.validations


def test_a_stop_at_the_last_step_is_the_end(make: Make, tmp_path: Path) -> None:
    console = silent()
    run = heedful.train(make(), tmp_path / "run", callbacks=[Recorder(("step", 12))], console=console)
    assert "Trained 12 steps" in told(console)
    assert run.steps == 12


def test_what_is_not_a_callback_is_refused_before_anything_is_written(make: Make, tmp_path: Path) -> None:
    message = r"^callbacks\[1\] is <built-in function print>, but must be an object of a class derived from heedful\."
    with pytest.raises(UserError, match=message):
        heedful.train(make(), tmp_path / "run", callbacks=[Recorder(), print])  # type: ignore[list-item]
    assert not (tmp_path / "run").exists()
