"""A run that is killed, finds the disk full or damaged, or loses power ends as if nothing had happened when it is
started again.

The faults happen in forked children of a program of its own, `benchmarks/faults/faults.py`, which counts what was
survived: `make test-faults` runs the parts that are marked, and the program alone, without options, many more.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.faults.faults import WRONG
from tests.shared.patience import PATIENCE

ROOT = Path(__file__).parents[4]


def plant(*options: str) -> dict[str, int]:
    """Plant faults, none of which may do harm; return how many there were."""
    program = [sys.executable, "-m", "benchmarks.faults.faults", "--no-record", *options]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    figures: dict[str, int] = json.loads(done.stdout[done.stdout.rindex("{") :])
    assert [figures[name] for name in WRONG] == [0] * len(WRONG)
    return figures


def test_a_run_survives_a_few_kills_faults_of_the_disk_and_losses_of_power() -> None:
    figures = plant("--tiny", "--processes", "1", "--parts", "kills", "operations", "power")
    assert min(figures[name] for name in ("kills", "full_faults", "error_faults", "power_states")) > 0


@pytest.mark.faults
def test_runs_of_all_tasks_survive_kills_signals_and_damage_in_chains() -> None:
    figures = plant("--quick", "--processes", "1", "--parts", "kills")
    assert figures["kills"] >= 100
    assert figures["recipes"] >= 12


@pytest.mark.faults
def test_a_run_survives_a_kill_a_full_disk_an_error_and_a_short_write_at_any_file_operation() -> None:
    figures = plant("--quick", "--processes", "1", "--parts", "operations")
    assert min(figures[f"{kind}_faults"] for kind in ("kill", "full", "error", "short")) > 10


@pytest.mark.faults
def test_runs_caches_and_studies_survive_a_loss_of_power() -> None:
    assert plant("--quick", "--processes", "1", "--parts", "power")["power_states"] >= 400


@pytest.mark.faults
def test_every_saver_that_is_known_to_be_bad_is_found_out() -> None:
    figures = plant("--quick", "--processes", "1", "--parts", "savers")
    assert figures["mutants_caught"] == figures["mutants"] >= 5
