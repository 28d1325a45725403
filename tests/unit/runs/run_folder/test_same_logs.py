"""The logs and the report of a run that was killed and resumed are those of an undisturbed run, byte for byte.

Times are masked: the clock of the meter stands still, and the report's two durations are cut out.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.runs.run_folders import same_bits, silent, write

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.runs.callbacks import Callback
from heedful.runs.training_run import train
from heedful.training.meter import Meter
from heedful.training.trainer import StepMetrics

LOGS = ("metrics.jsonl", "samples.jsonl", "instruments.jsonl", "report.html")
TRANSFORMER = {"family": "transformer", "width": 8, "heads": 2, "layers": 1, "inner": 8}
BERT = TRANSFORMER | {"family": "bert", "max_positions": 16, "next_sentence": False}
PAIRS = {"source": "a.txt", "target": "b.txt"}
TABLE = {"tsv": "t.tsv", "text": 1, "label": 2}
TEXT = {"text": "a.txt"}
CASES: dict[str, dict[str, Any]] = {
    "translator with instruments": {
        "data": {"train": PAIRS, "valid": PAIRS | {"lines": "1-4"}},
        "model": TRANSFORMER,
        "train": {"instruments": {"every": 4, "probe": True, "histograms": True}},
    },
    "language model with carried states": {
        "data": {"train": TEXT, "valid": TEXT | {"lines": "1-4"}, "borders": "open", "max_length": 5},
        "model": {"family": "language", "tie": False, "decoder": {"family": "recurrent", "width": 8, "embedding": 6}},
    },
    "masked model with a mean of checkpoints": {
        "data": {"train": TEXT, "valid": TEXT | {"lines": "1-4"}, "max_length": 16},
        "model": BERT,
        "train": {"average": {"last": 2}},
    },
    "classifier with accumulated batches and a moving average": {
        "data": {"train": TABLE, "valid": TABLE | {"lines": "1-8"}},
        "model": {"family": "classifier", "encoder": TRANSFORMER},
        "train": {"accumulate": 2, "moving_average": 0.9},
    },
    "student of a teacher": {
        "data": {"train": PAIRS, "valid": PAIRS | {"lines": "1-4"}},
        "model": TRANSFORMER,
        "train": {"distill": {"teacher": "teacher"}},
    },
}


class Killed(BaseException):
    """What ends a run in these tests, as a kill would: nothing is saved on the way."""


class KillAt(Callback):
    """Ends a run after some update, or after its metrics were logged."""

    def __init__(self, step: int, logged: bool) -> None:
        self.last, self.logged = step, logged

    def on_step(self, step: int) -> None:
        if step == self.last and not self.logged:
            raise Killed

    def on_metrics(self, metrics: StepMetrics) -> None:
        if metrics.step == self.last:
            raise Killed


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data that all cases read, a clock that stands still, and no TensorBoard, whose files hold times."""
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setattr(Meter, "seconds", 1.0)  # a speed is the number of tokens
    monkeypatch.setattr(Meter, "waited", 0.25)
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    numbers = [f"{n * 7919 % 10**5:05d}"[: 2 + n % 4] for n in range(60)]
    write(tmp_path / "a.txt", [" ".join(number) for number in numbers])
    write(tmp_path / "b.txt", [" ".join(words[int(digit)] for digit in number) for number in numbers])
    write(tmp_path / "t.tsv", [f"{' '.join(number)}\t{'odd' if int(number) % 2 else 'even'}" for number in numbers])
    return tmp_path


def recipe_of(case: str, folder: Path) -> Recipe:
    tables = CASES[case]
    settings = {
        "steps": 12, "log_every": 5, "checkpoint_every": 2, "schedule": {"kind": "constant", "lr": 0.01},
        "device": "cpu", "precision": "float32", "threads": 1, "validation": {"every": 3}, **tables.get("train", {}),
    }  # fmt: skip
    data = {"folder": str(folder), "batch_tokens": 40, **tables["data"]}
    tokenizer = {} if "distill" in settings else {"tokenizer": {"kind": "word"}}
    return recipe_from_json({"data": data, "model": tables["model"], "train": settings, **tokenizer}, "test recipe")


def logs() -> dict[str, str]:
    """The logs and the report of `run`, but for the times of the report."""
    found = {name: Path("run", name).read_text() for name in LOGS if Path("run", name).exists()}
    times = r"<div><dt>(?:time trained|last written)</dt><dd>[^<]*</dd></div>"
    return found | {"report.html": re.sub(times, "", found["report.html"])}


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_was_killed_logs_what_an_undisturbed_run_logs(
    case: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for name in ("whole", "killed"):
        (workplace / name).mkdir()
        monkeypatch.chdir(workplace / name)
        if "distill" in CASES[case].get("train", {}):
            train(recipe_of("translator with instruments", workplace), "teacher", console=silent())
        recipe = recipe_of(case, workplace)
        kills = [KillAt(1, False), KillAt(5, True), KillAt(9, False), KillAt(12, True)]  # checkpoints are at even steps
        for kill in kills if name == "killed" else ():
            with pytest.raises(Killed):
                train(recipe, "run", resume=True, console=silent(), callbacks=[kill])
        train(recipe, "run", resume=True, console=silent())
        found[name] = logs()
    assert found["killed"].keys() == found["whole"].keys() >= {"metrics.jsonl", "report.html"}
    for log in found["whole"]:
        assert found["killed"][log] == found["whole"][log], log
    speeds = [json.loads(line).get("tokens_per_second") for line in found["whole"]["metrics.jsonl"].splitlines()]
    assert sum(speed is not None for speed in speeds) == 3
    same_bits(workplace / "whole/run/model.safetensors", workplace / "killed/run/model.safetensors")
