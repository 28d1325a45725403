"""Old runs still go on: one that an earlier Heedful began, and somebody stopped, ends as if nobody had.

Only the public surface is used. How these runs are made, once and for ever: `make_runs.py`.
"""

import json
import shutil
import tomllib
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.golden.answers import differences

import heedful

RUNS = Path(__file__).parent / "runs"
NAMES = sorted(folder.name for folder in RUNS.iterdir())
STOPPED, STEPS = 10, 20
KEPT = ["step-00000018", "step-00000020"]
CLOCKED = ("tokens_per_second", "data_wait")


def readings(metrics: Path) -> list[dict[str, Any]]:
    """What a run recorded, but for what depends on the clock, and for baselines, which old runs do not have."""
    lines = map(json.loads, metrics.read_text().splitlines())
    return [
        {key: value for key, value in line.items() if key not in CLOCKED and not key.startswith("baseline_")}
        for line in lines
    ]


@pytest.mark.parametrize("name", NAMES)
def test_an_old_run_goes_on_to_the_losses_of_one_that_was_never_stopped(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(RUNS / name, tmp_path / name)
    monkeypatch.chdir(tmp_path / name)
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    begun, screen = Path("run/metrics.jsonl").read_text(), StringIO()
    run = heedful.train("recipe.toml", "run", resume=True, console=Console(file=screen, width=200))
    assert differences(readings(Path("whole.jsonl")), readings(run / "metrics.jsonl")) == []
    assert (run / "metrics.jsonl").read_text().startswith(begun)  # speeds too: no step was done again
    assert f"Trained {STEPS} steps" in screen.getvalue()
    keep = tomllib.loads(Path("recipe.toml").read_text())["train"].get(
        "keep_checkpoints", 2
    )  # one of these runs sets 1
    assert sorted(path.name for path in (run / "checkpoints").glob("step-*")) == KEPT[-keep:]


@pytest.mark.parametrize("name", NAMES)
def test_an_old_run_was_stopped_half_way(name: str) -> None:
    steps = [line["step"] for line in readings(RUNS / name / "run" / "metrics.jsonl")]
    assert max(steps) == STOPPED
    assert max(line["step"] for line in readings(RUNS / name / "whole.jsonl")) == STEPS


def test_no_old_run_names_a_place_on_the_machine_that_made_it() -> None:
    for file in RUNS.glob("**/*"):
        if file.suffix in (".json", ".jsonl", ".md", ".toml") and not file.name.startswith("tokenizer"):
            assert not any(place in file.read_text() for place in ("/work", "/home", "/tmp", "/root")), file
