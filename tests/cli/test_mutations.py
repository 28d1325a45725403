"""Damaged recipes, models, checkpoints, folders to import and corpora: used, or refused in one line.

`benchmarks/damage/mutations.py` does this with thousands of inputs, within limits of time and memory.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.damage.mutation_inputs import Inputs
from tests.shared.patience import PATIENCE

from heedful.cli.main import run

ROOT = Path(__file__).parents[2]
SEEDS = range(1000, 1008)  # of each kind


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize("kind", ["recipe", "bundle", "checkpoint", "imported", "corpus"])
def test_a_damaged_input_is_used_or_refused_in_one_line(
    kind: str, inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        commands = inputs.work(kind, seed).make(folder)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
        code = next((code for code in map(run, commands) if code), 0)
        said = capfd.readouterr().err
        assert code in (0, 2, 3), (seed, said)
        assert len(re.findall(r"^heedful: (?:error|\d+ errors):", said, re.MULTILINE)) == (code != 0), (seed, said)
        assert "panicked at" not in said, (seed, said)


@pytest.mark.wide
def test_hundreds_of_damaged_inputs_within_limits() -> None:
    program = [sys.executable, "benchmarks/damage/mutations.py", "--inputs", "400", "--no-record"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE)
    figures = json.loads(done.stdout[done.stdout.rindex("{") :])
    assert (figures["inputs"], figures["tracebacks"], figures["hangs"]) == (400, 0, 0), done.stdout
