"""The doctor's report: the same data, plan and model that training uses, and honest figures."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from rich.console import Console
from tests.shared.refusals import refuses

from heedful.config.reading.load import load_recipe, recipe_from_json, recipe_to_toml
from heedful.config.recipe import Recipe
from heedful.data.batches.pairs import pair_costs
from heedful.doctor import examination
from heedful.doctor.estimates import memory
from heedful.doctor.estimates.flops import STEP, forward_flop
from heedful.doctor.estimates.memory import LargestBatch, Memory
from heedful.doctor.estimates.plan import Forecast
from heedful.doctor.examination import Report, examine
from heedful.lab import doctor as formerly
from heedful.runs.dry_run import dry_run
from heedful.runs.progress import RunProgress
from heedful.runs.training_run import prepare_job, train

Make = Callable[..., Recipe]
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A tiny recipe on files of its own: letters in, numbers as words out."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    numbers = [str(1000 + 29 * n) for n in range(300)]
    write(tmp_path / "a.txt", [" ".join("abcdefghij"[int(digit)] for digit in number) for number in numbers])
    write(tmp_path / "b.txt", [" ".join(WORDS[int(digit)] for digit in number) for number in numbers])

    def made(data: dict[str, Any] | None = None, **train: Any) -> Recipe:
        corpora = {"train": [{"source": "a.txt", "target": "b.txt", "weight": 1.5}], "valid": [], "batch_tokens": 100}
        return recipe_from_json(
            {
                "data": {"folder": str(tmp_path), **corpora, **(data or {})},
                "tokenizer": {"kind": "word"},
                "model": {"width": 16, "heads": 2, "layers": 1, "inner": 32},
                "train": {
                    "steps": 40,
                    "schedule": {"kind": "constant", "lr": 0.01},
                    "precision": "float32",
                    "device": "cpu",
                    **train,
                },
            },
            "test recipe",
        )

    return made


def kinds(report: Report) -> list[tuple[str, str]]:
    return [(finding.severity, finding.kind) for finding in report.findings]


def test_the_run_is_the_one_that_training_plans(make: Make) -> None:
    recipe = make(accumulate=4)
    run = examine(recipe).run
    with RunProgress(Console(quiet=True)) as progress:
        job = prepare_job(recipe, progress)
    plan = list(job.feed.plan(0))
    source, target = pair_costs(job.prepared.train)
    assert run.parameters.total == sum(p.numel() for p in job.model.parameters())
    assert run.micro_batches_per_epoch == len(plan)
    assert len(plan) % 4, "the last update is to be a smaller one"
    assert run.updates_per_epoch == len(plan) // 4 + 1
    assert run.epochs == 40 / run.updates_per_epoch
    assert run.rows_per_epoch == 450  # 1.5 times 300
    assert run.fill["target"] == pytest.approx(np.mean([target[batch].sum() / 100 for batch in plan]))
    assert run.fill["source"] == pytest.approx(np.mean([source[batch].sum() / 100 for batch in plan]))
    sizes = [forward_flop(recipe.pair_model, source[b], target[b], job.vocabularies["target"].size) for b in plan]
    assert run.flop_per_update == pytest.approx(STEP * sum(sizes) / run.updates_per_epoch)
    assert run.flop_per_update is not None
    assert run.flop == pytest.approx(40 * run.flop_per_update)


def test_ten_steps_give_the_time_and_the_capacity_behind_it(make: Make) -> None:
    report = examine(make(), dry_run)
    assert report.time is not None
    assert report.time.seconds > 0
    assert report.time.capacity_flop == report.time.seconds * report.time.matrix_rate
    assert report.run.flop is not None
    assert report.time.used == report.run.flop / report.time.capacity_flop
    assert report.time.peak_gpu_bytes is None


def test_a_quick_look_trains_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Forecast:
        raise AssertionError("trained")

    monkeypatch.setattr(formerly, "dry_run", fail)
    with pytest.warns(DeprecationWarning, match="is called"):
        assert formerly.examine(make(), quick=True).time is None


def test_a_clean_recipe_has_no_warning(make: Make) -> None:
    report = examine(make())
    assert {severity for severity, _ in kinds(report)} <= {"note"}
    assert [(corpus.part, corpus.rows) for corpus in report.corpora] == [("train", 300)]


def test_judging_on_what_was_trained_on_is_a_problem_and_comes_first(make: Make) -> None:
    lines = {"source": "a.txt", "target": "b.txt", "lines": "11-20"}
    report = examine(make(data={"valid": [lines], "test": [lines]}))
    problems = [finding for finding in report.findings if finding.severity == "problem"]
    assert [(finding.part, finding.kind) for finding in problems] == [
        ("valid", "source_seen"),
        ("valid", "pair_seen"),
        ("test", "source_seen"),
        ("test", "pair_seen"),
        ("test", "source_seen"),
        ("test", "pair_seen"),
    ]
    assert problems[0].lines == (11, 12, 13, 14, 15)
    assert report.findings[: len(problems)] == tuple(problems)
    assert "also in valid" in problems[-1].what


def test_a_test_corpus_that_cannot_be_read_is_a_problem_but_the_report_is_made(make: Make) -> None:
    report = examine(make(data={"test": [{"source": "nowhere.en", "target": "nowhere.de"}]}))
    (finding,) = (finding for finding in report.findings if finding.kind == "unreadable")
    assert "nowhere.en: no such file" in finding.what
    assert (finding.severity, finding.part, finding.corpus) == ("problem", "test", "nowhere.en + nowhere.de")


@pytest.mark.parametrize("part", ["train", "valid"])
def test_a_recipe_that_cannot_train_is_refused(part: str, make: Make) -> None:
    with refuses("...nowhere.en: no such file..."):
        examine(make(data={part: [{"source": "nowhere.en", "target": "nowhere.de"}]}))


def test_a_step_that_does_not_fit_is_a_problem_and_is_not_tried(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = Memory(2**30, 2**30, 2 * 2**30, 4 * 2**30, LargestBatch(1, {"text": 1}, 1), available=6 * 2**30)
    monkeypatch.setattr(examination, "measure_memory", lambda *_: huge)
    report = examine(make(), dry_run)
    assert report.time is None
    assert ("problem", "memory") in kinds(report)
    assert "a step needs 8.0 GiB, but the device has 6.0 GiB" in [finding.what for finding in report.findings]


def out_of_memory(*_: object) -> NoReturn:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 40.00 GiB.")


def test_a_forward_pass_that_finds_no_memory_is_a_problem_in_the_report(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = examine(make()).memory
    monkeypatch.setattr(memory, "saved_bytes", out_of_memory)
    monkeypatch.setattr(memory, "_available", lambda device: 6 * 2**30)
    report = examine(make(), dry_run)
    assert report.time is None
    assert (report.memory.activations, report.memory.total, report.memory.fits) == (None, None, False)
    assert (report.memory.parameters, report.memory.optimizer) == (whole.parameters, whole.optimizer)
    assert ("problem", "memory") in kinds(report)
    what = "a step needs more memory than is free, but the device has 6.0 GiB"
    assert what in [finding.what for finding in report.findings]


def test_ten_steps_that_find_no_memory_are_a_problem_in_the_report(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_available", lambda device: None)
    report = examine(make(), out_of_memory)
    assert report.time is None
    assert report.memory.total is not None  # it was measured all the same
    assert "a step needs more memory than is free" in [finding.what for finding in report.findings]


@pytest.mark.parametrize(
    ("activations", "available", "fits"),
    [(10, 51, True), (10, 50, False), (10, None, True), (None, 10**9, False), (None, None, False)],
)
def test_a_step_fits_where_the_device_has_more(activations: int | None, available: int | None, fits: bool) -> None:
    assert Memory(10, 10, 20, activations, LargestBatch(1, {"text": 1}, 1), available).fits == fits


# --- as a library ---------------------------------------------------------------------------------------------------


def test_a_recipe_can_be_a_file(make: Make, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(recipe_to_toml(make()))
    expected = examine(load_recipe(tmp_path / "my.toml"))  # the file sets every key, `make` does not
    assert examine(tmp_path / "my.toml") == examine(str(tmp_path / "my.toml")) == expected
    with refuses("...`no-recipe-has-this-name` is neither a file nor a shipped recipe..."):
        examine("no-recipe-has-this-name")


@pytest.mark.wide
def test_the_snippet_of_the_manual_runs(make: Make, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(recipe_to_toml(make()))
    manual = (Path(__file__).parents[3] / "docs/guide/doctor.md").read_text()
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", manual, re.DOTALL | re.MULTILINE)
    ran = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=True)
    report = examine(load_recipe(tmp_path / "my.toml"))
    *findings, last = ran.stdout.splitlines()
    assert findings == [f"{finding.severity} {finding.part} {finding.what}" for finding in report.findings]
    assert last == f"{report.run.parameters.total:,} parameters, {report.run.epochs:.1f} epochs"


def test_a_run_that_ends_before_it_began_is_told(make: Make) -> None:
    schedule = {"kind": "constant", "lr": 0.01, "warmup": 5}
    found = kinds(examine(make(steps=5, schedule=schedule)))
    assert ("warning", "warmup") in found
    assert ("note", "short_run") in found
    assert ("note", "no_validation") in found
    assert ("warning", "warmup") not in kinds(examine(make(steps=6, schedule=schedule)))


def test_the_precision_is_only_expected_where_training_tries_both(make: Make) -> None:
    assert examine(make()).run.precision_known
    guessed = examine(make(precision="auto")).run
    assert not guessed.precision_known
    assert guessed.precision in ("float32", "bfloat16")


def test_a_run_that_starts_from_a_model_has_its_vocabulary(make: Make, tmp_path: Path) -> None:
    start = train(make(steps=2), tmp_path / "start", console=Console(quiet=True))
    write(tmp_path / "c.txt", ["a b c d e f"] * 30)
    write(tmp_path / "d.txt", ["un deux trois quatre cinq sept"] * 30)
    data = {"train": [{"source": "c.txt", "target": "d.txt"}]}
    recipe = make(data=data, start_from=str(start))
    with pytest.warns(DeprecationWarning, match=r"`heedful.lab.doctor` is called `heedful.doctor.examination` now"):
        report = formerly.examine(recipe, quick=True)
    source, target = report.pieces.sides
    assert (source.unknown, target.unknown) == (0.0, 1.0)


def test_progress_is_told_and_threads_are_those_of_the_recipe(make: Make) -> None:
    said: list[str] = []
    examine(make(threads=1), progress=said.append)
    assert "checking a.txt + b.txt" in said
    assert torch.get_num_threads() == 1
