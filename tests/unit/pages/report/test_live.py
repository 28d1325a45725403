"""The report of a run that goes on."""

from pathlib import Path

import pytest
from tests.unit.pages.report.conftest import WriteRun, logged

from heedful.base.errors import MachineError
from heedful.pages.report import page as live
from heedful.pages.report.page import LiveReport

RELOADS = '<meta http-equiv="refresh"'


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_page_reloads_itself_until_the_run_ends(write_run: WriteRun) -> None:
    run, said, clock = write_run(lines=[logged(10)]), list[str](), Clock()
    report = LiveReport(run, said.append, clock)
    clock.now = 10.0
    report.rewrite()
    assert RELOADS in report.path.read_text()
    assert report.finish()
    assert RELOADS not in report.path.read_text()
    assert said == []


def test_validations_that_follow_each_other_at_once_write_one_page(write_run: WriteRun) -> None:
    run, clock = write_run(lines=[logged(10)]), Clock()
    report = LiveReport(run, print, clock)
    report.rewrite()
    assert not report.path.exists()
    clock.now = 1.0
    report.rewrite()
    report.path.write_text("old")
    clock.now = 1.9
    report.rewrite()
    assert report.path.read_text() == "old"
    clock.now = 2.0
    report.rewrite()
    assert report.path.read_text() != "old"


def test_a_page_that_takes_long_is_written_less_often(write_run: WriteRun, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = Clock(), list[float]()

    def take_long(path: Path, data: bytes) -> None:
        written.append(clock.now)
        clock.now += 2.0

    monkeypatch.setattr(live, "write_bytes", take_long)
    report = LiveReport(write_run(lines=[logged(10)]), print, clock)
    for _ in range(300):
        clock.now += 1.0
        report.rewrite()
    assert 1 < len(written) <= 4


def test_what_goes_wrong_is_said_once(write_run: WriteRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, data: bytes) -> None:
        raise MachineError("the disk is full") from OSError(28, "No space left on device")

    monkeypatch.setattr(live, "write_bytes", fail)
    said, clock, run = list[str](), Clock(), write_run(lines=[logged(10)])
    report = LiveReport(run, said.append, clock)
    clock.now = 5.0
    report.rewrite()
    assert not report.finish()
    reason = "No space left on device"
    assert said == [f"{run}/report.html cannot be written ({reason}): training continues without a report"]


def test_a_damaged_folder_does_not_end_a_run(write_run: WriteRun) -> None:
    run, said = write_run(lines=[logged(10)]), list[str]()
    (run / "config.json").write_text("{")
    assert not LiveReport(run, said.append).finish()
    assert len(said) == 1
    assert "training continues without a report" in said[0]


def test_a_run_without_metrics_has_no_page(tmp_path: Path) -> None:
    assert not LiveReport(tmp_path, print).finish()
    assert not list(tmp_path.iterdir())
