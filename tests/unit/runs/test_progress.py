"""What a run shows and records."""

import errno
import json
import os
import sys
import threading
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from heedful.runs.progress import RunProgress, describe, duration
from heedful.training.trainer import StepMetrics

READING = StepMetrics(
    step=1500,
    steps=8000,
    epoch=3,
    loss=2.3456,
    perplexity=4.321,
    learning_rate=0.00123,
    gradient_norm=0.5,
    tokens_per_second=12345.6,
    data_wait=0.02,
    skipped=0,
    seconds_left=3700,
)


def test_the_line_says_step_epoch_loss_rate_speed_and_time_left() -> None:
    line = describe(READING)
    assert line == "step 1,500/8,000  epoch 4  loss 2.346  lr 1.2e-03  12,346 tok/s  62 min left"
    assert len(line) <= 80
    assert describe(READING, "target tokens") == line
    assert describe(READING, "patches") == line.replace("tok/s", "patches/s")


def test_what_is_unusual_is_spelled_out_at_the_end_of_the_line() -> None:
    unusual = describe(replace(READING, data_wait=0.31, skipped=2))
    assert unusual == f"{describe(READING)}  waiting for data 31%  skipped updates 2"


@pytest.mark.parametrize(("seconds", "words"), [(45, "45 s"), (720, "12 min"), (12000, "3 h 20 min")])
def test_times_are_said_the_way_people_do(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_elsewhere_than_on_a_terminal_logged_readings_are_plain_lines() -> None:
    out = StringIO()
    with RunProgress(Console(file=out, width=200)) as progress:
        progress.step_metrics(READING, logged=False)
        progress.step_metrics(READING, logged=True)
    assert out.getvalue().count("\n") == 1


def test_a_terminal_has_one_live_line_that_disappears() -> None:
    out = StringIO()
    with RunProgress(Console(file=out, width=200, force_terminal=True)) as progress:
        progress.step_metrics(READING, logged=False)
        progress.say("a line above it")
    assert "step 1,500" in out.getvalue()
    assert "a line above it" in out.getvalue()


def test_on_a_terminal_a_line_stays_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0, 61.0, 62.0, 130.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    said: list[str] = []
    monkeypatch.setattr(RunProgress, "say", lambda self, message: said.append(message))
    progress = RunProgress(Console(file=StringIO(), width=200, force_terminal=True))
    for step in (1, 2, 3, 4):
        progress.step_metrics(replace(READING, step=step), logged=True)
    assert [line.split("/")[0] for line in said] == ["step 2", "step 4"]


def test_the_live_line_says_how_much_of_a_validation_is_done() -> None:
    out = StringIO()
    with (
        RunProgress(Console(file=out, width=200, force_terminal=True)) as progress,
        progress.showing("validating", 1014) as advance,
    ):
        advance(250)
        advance(150)
    for line in ("validating 0 / 1,014", "validating 250 / 1,014", "validating 400 / 1,014"):
        assert line in out.getvalue()


def test_a_validation_in_progress_is_not_shown_elsewhere() -> None:
    out = StringIO()
    with RunProgress(Console(file=out, width=200)) as progress, progress.showing("validating", 3) as advance:
        advance(3)
    assert out.getvalue() == ""


def test_metrics_go_on_where_nobody_reads_the_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stderr", pipe)
        with RunProgress() as progress:
            progress.begin(tmp_path, 0)
            progress.step_metrics(READING, logged=True)
            assert b"step 1,500/8,000" in os.read(reader, 1000)
            os.close(reader)
            for _ in range(3):
                progress.step_metrics(READING, logged=True)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 4


def test_metrics_after_the_resumed_step_are_forgotten_even_a_torn_line(tmp_path: Path) -> None:
    lines = [json.dumps({"step": step, "part": "train", "loss": 1}) for step in (100, 200, 300)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + '\n{"step": 40')
    with RunProgress(Console(file=StringIO())) as progress:
        progress.begin(tmp_path, 200)
        progress.validation(200, {"loss": 1.5}, best=True)
    entries = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(entry["step"], entry["part"]) for entry in entries] == [(100, "train"), (200, "train"), (200, "valid")]


def test_a_full_disk_under_the_file_of_tensorboard_is_told_once_without_a_traceback_of_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    writer = pytest.importorskip("tensorboard.summary.writer.record_writer").RecordWriter

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out, hook = StringIO(), threading.excepthook
    with RunProgress(Console(file=out, width=300)) as progress:
        progress.begin(tmp_path, 0)
        assert progress._board is not None
        monkeypatch.setattr(writer, "write", full)
        for step in range(1, 9):
            progress.validation(step, {"loss": 1.5}, best=False)
            time.sleep(0.01)  # for its thread
    assert progress._board is None
    told = "tensorboard cannot be written (No space left on device): training continues without recording metrics\n"
    assert out.getvalue().count(told) == out.getvalue().count("cannot be written") == 1
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 8
    assert capfd.readouterr().err == ""
    assert threading.excepthook is hook


def test_a_full_disk_under_the_metrics_is_told_once_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out = StringIO()
    with RunProgress(Console(file=out, width=300)) as progress:
        progress.begin(tmp_path, 0)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", full)
            for _ in range(3):
                progress.validation(200, {"loss": 1.5}, best=True)
        progress.validation(300, {"loss": 1.5}, best=True)
    told = "metrics.jsonl cannot be written (No space left on device): training continues without recording metrics\n"
    assert out.getvalue().count(told) == out.getvalue().count("cannot be written") == 1
    assert [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [300]
