"""Logs never decide whether a run resumes: odd lines are left out, and what is not a file is not recorded to."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from tests.shared.covering import one_in
from tests.unit.pages.report.test_log import ODD
from tests.unit.runs.run_folders import Make, same_bits, silent, told

from heedful.cli.verbs.evaluate import describe_training
from heedful.runs.progress import recorded_instruments, recorded_metrics
from heedful.runs.training_run import train

LOGS = ("metrics.jsonl", "instruments.jsonl", "samples.jsonl")
OPTIONS = {
    "steps": 8, "log_every": 2, "checkpoint_every": 4, "validation": {"every": 4, "metric": "bleu"},
    "instruments": {"every": 4},
}  # fmt: skip


@pytest.fixture
def whole(make: Make, tmp_path: Path) -> Path:
    """A run that nothing disturbed."""
    return train(make(**OPTIONS), tmp_path / "whole", console=silent())


@pytest.fixture
def stopped(make: Make, tmp_path: Path, whole: Path) -> Path:
    """Half of it: the last checkpoint of a run that was killed later."""
    run = train(make(**{**OPTIONS, "steps": 4}), tmp_path / "run", console=silent())
    for name in LOGS:
        shutil.copy(whole / name, run / name)
    return run


def test_a_run_resumes_over_odd_lines_in_its_logs(make: Make, whole: Path, stopped: Path) -> None:
    for name in LOGS:
        lines = (stopped / name).read_text().splitlines()
        odd = [line for log, line, _ in ODD if log == name]
        (stopped / name).write_text("\n".join([*odd, *lines, '{"step": 9']))
    expected = {"steps": 8, **{key: value for key, value in describe_training(whole).items() if key == "tokens_s"}}
    assert describe_training(stopped) | expected == describe_training(stopped)
    console = silent()
    train(make(**OPTIONS), stopped, resume=True, console=console)
    same_bits(whole / "model.safetensors", stopped / "model.safetensors")
    said = [line for line in told(console).splitlines() if "left out" in line]
    assert [line.partition(" more")[0] for line in said] == [
        f"{stopped / name}: line 1 and {sum(log == name for log, *_ in ODD)}" for name in LOGS
    ]
    for part in ("train", "valid"):
        steps = [entry["step"] for entry in recorded_metrics(whole, part)]
        assert [entry["step"] for entry in recorded_metrics(stopped, part)] == steps
    assert recorded_instruments(stopped) == recorded_instruments(whole)
    assert (stopped / "samples.jsonl").read_bytes() == (whole / "samples.jsonl").read_bytes()
    assert (stopped / "report.html").exists()


@pytest.mark.parametrize("kind", one_in(3, ["folder", "pipe", "loop", "unreadable"]))
def test_a_run_resumes_without_logs_that_are_not_files(
    make: Make, whole: Path, stopped: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, before = Path.open, {name: (stopped / name).read_bytes() for name in LOGS}
    for name in (*LOGS, "tensorboard"):
        path = stopped / name
        match kind:
            case "unreadable":
                continue
            case "folder" if name != "tensorboard":
                path.unlink()
                path.mkdir()
            case "pipe" if name != "tensorboard":
                path.unlink()
                os.mkfifo(path)
            case _:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                path.symlink_to(path)

    def forbidden(path: Path, *more: object, **options: object) -> object:
        if path.name in LOGS:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *more, **options)  # type: ignore[call-overload]

    console = silent()
    with monkeypatch.context() as patch:
        if kind == "unreadable":
            patch.setattr(Path, "open", forbidden)
        train(make(**OPTIONS), stopped, resume=True, console=console)
    same_bits(whole / "model.safetensors", stopped / "model.safetensors")
    assert told(console).count("training continues without recording metrics\n") == 1
    if kind == "unreadable":
        assert {name: (stopped / name).read_bytes() for name in LOGS} == before
