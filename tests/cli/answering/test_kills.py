"""Batch jobs whose workers are killed, in forked children of a program of its own, `benchmarks/shards/shards.py`."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.shards.shards import WRONG
from tests.cli.answering.batch_jobs import LINES, job_of
from tests.shared.patience import PATIENCE

ROOT = Path(__file__).parents[3]


def kill(*options: str) -> dict[str, int]:
    """Kill workers, which may do no harm; return how many there were."""
    program = [sys.executable, "-m", "benchmarks.shards.shards", "--no-record", "--parts", "kills", "mutant", *options]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=5 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    figures: dict[str, int] = json.loads(done.stdout[done.stdout.rindex("{") :])
    assert [figures[name] for name in WRONG] == [0] * len(WRONG)
    assert figures["mutants_caught"] == figures["mutants"] == 1
    return figures


def test_jobs_whose_workers_are_killed_at_random_moments_end_with_the_bytes_of_an_undisturbed_run() -> None:
    assert kill("--tiny")["kills"] >= 6


@pytest.mark.faults
def test_many_kills_of_jobs_of_all_forms_do_no_harm() -> None:
    assert kill("--kills", "80", "--seed", "2")["kills"] >= 80


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)], ids=str)
def test_a_signal_ends_a_worker_and_what_it_has_finished_stays(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """A shell calls the end by SIGTERM exit code 143."""
    path = tmp_path / "many.txt"
    path.write_text("".join(f"{LINES[line % len(LINES)]} {line}\n" for line in range(60_000)))
    job = job_of(tmp_path / "out", "classify", "classifier-bag", path)
    command = [sys.executable, "-m", "heedful", *job.words, "--output", str(job.folder), "--shard", "1/1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not [*job.folder.glob("records/*")]:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert said == ("heedful: interrupted.\n" if code > 0 else "")
    whole = job.parts()
    assert 0 < len(whole) < 6
    job.work()
    assert whole.items() <= job.parts().items()
    assert job.joined() == job.undisturbed()
