"""`heedful join` as a user sees it."""

from pathlib import Path

import pytest
from tests.cli.answering.batch_jobs import Job, job_of, lines, small_parts, told

from heedful.cli.main import run

Capture = pytest.CaptureFixture[str]
__all__ = ["lines", "small_parts"]  # fixtures


@pytest.fixture
def job(lines: Path, tmp_path: Path, capsys: Capture) -> Job:
    job = job_of(tmp_path / "out", "classify", "classifier-bag", lines)
    job.work()
    capsys.readouterr()
    return job


def test_parts_are_joined_on_standard_output_and_in_a_file(job: Job, tmp_path: Path, capsys: Capture) -> None:
    assert run(["join", str(job.folder)]) == 0
    assert capsys.readouterr() == (job.undisturbed().decode(), "")
    assert run(["join", str(job.folder), "-o", str(tmp_path / "joined.txt")]) == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "joined.txt").read_bytes() == job.undisturbed()


def test_a_job_with_parts_that_are_missing_or_changed_is_refused_before_anything_is_written(
    job: Job, tmp_path: Path, capsys: Capture
) -> None:
    last = job.folder / "part-000003"
    last.write_bytes(last.read_bytes().replace(b"0", b"1"))
    assert run(["join", str(job.folder)]) == 2
    again = "give the command of the job again, which writes what is missing."
    assert capsys.readouterr() == (
        "",
        f"heedful: error: {job.folder} lacks 1 part of 4, such as part-000003: {again}\n",
    )
    (job.folder / "part-000001").unlink()
    (tmp_path / "joined.txt").write_text("old")
    assert run(["join", str(job.folder), "-o", str(tmp_path / "joined.txt")]) == 2
    assert told(capsys) == f"{job.folder} lacks 2 parts of 4, such as part-000001: {again}"
    assert (tmp_path / "joined.txt").read_text() == "old"


def test_other_folders_are_refused(job: Job, tmp_path: Path, capsys: Capture) -> None:
    assert run(["join", str(tmp_path / "nowhere")]) == 2
    assert told(capsys).startswith(f"{tmp_path / 'nowhere'} has no manifest.json: ")
    assert run(["join", str(job.folder), "-o", str(tmp_path)]) == 2
    assert told(capsys).startswith(f"{tmp_path}: this is a folder")
