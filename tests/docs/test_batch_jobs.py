"""What docs/how-to/batch-jobs.md shows for a pool, for Slurm and for Kubernetes does a job, as it is written there."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.docs.blocks import blocks_of
from tests.shared.patience import PATIENCE

from heedful.cli.answering import parts
from heedful.cli.main import run

BLOCKS = [block for block in blocks_of("docs/how-to/batch-jobs.md") if block.language in ("bash", "yaml")]
COMMAND = ["translate", "runs/m30k", "test.en"]
WORKERS = 4
Shell = Callable[..., None]


def block_with(word: str) -> str:
    (found,) = [block.text for block in BLOCKS if word in block.text]
    return found


@pytest.fixture
def expected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """What one command writes; its parts have two lines, so that each worker has some."""
    monkeypatch.setattr(parts, "SIZE", 2)
    assert run([*COMMAND, "--output", "whole.de"]) == 0
    return Path("whole.de").read_bytes()


@pytest.fixture
def shell(folder: Path) -> Shell:
    """Runs a script, for which `heedful` is a command."""
    program = folder / "bin" / "heedful"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m heedful "$@"\n')
    program.chmod(0o755)

    def execute(script: str, **variables: object) -> None:
        added = {name: str(value) for name, value in variables.items()}
        environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", **added}
        command = ["bash", "-eu", "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr

    return execute


def begin(output: str) -> None:
    """Begin a job with small parts: a worker that has no part of it does that."""
    assert run([*COMMAND, "--output", output, "--shard", "999/999"]) == 0


def joined(output: str) -> bytes:
    assert run(["join", output, "--output", "joined.de"]) == 0
    return Path("joined.de").read_bytes()


@pytest.mark.wide
def test_the_pool_of_the_page_does_its_job(expected: bytes, shell: Shell) -> None:
    begin("pool")
    shell(block_with("wait"))
    assert Path("pool.de").read_bytes() == expected
    assert len([*Path("pool").glob("part-*")]) == WORKERS


@pytest.mark.wide
def test_the_tasks_of_the_slurm_array_of_the_page_do_its_job(expected: bytes, shell: Shell) -> None:
    script = block_with("#SBATCH")
    assert re.findall(r"--array=1-(\d+)$|\$SLURM_ARRAY_TASK_ID/(\d+)$", script, re.M) == [("4", ""), ("", "4")]
    begin("slurm")
    for task in range(1, WORKERS + 1):
        shell(script, SLURM_ARRAY_TASK_ID=task, SLURM_CPUS_PER_TASK=1)
    assert joined("slurm") == expected


@pytest.mark.wide
def test_the_pods_of_the_kubernetes_job_of_the_page_do_its_job(expected: bytes, shell: Shell) -> None:
    manifest = block_with("completionMode: Indexed")
    (script,) = re.findall(r'args: \["(.*)"\]', manifest)
    assert re.findall(r"completions: (\d+)$", manifest, re.M) == re.findall(r"/(\d+)$", script) == [str(WORKERS)]
    begin("pods")
    for index in range(WORKERS):
        shell(script, JOB_COMPLETION_INDEX=index)
    assert joined("pods") == expected
