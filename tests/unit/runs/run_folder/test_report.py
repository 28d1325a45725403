"""The report that a run writes by itself."""

import json
import re
from pathlib import Path

import pytest
from tests.shared.refusals import refuses
from tests.unit.runs.run_folders import Make, same_bits, silent, told

from heedful.runs.callbacks import Callback, Validation
from heedful.runs.training_run import train


class Looks(Callback):
    """Reads the page after validations, and stops the run after one of them."""

    def __init__(self, page: Path, last: int) -> None:
        self.page, self.last = page, last
        self.seen: list[str] = []

    def on_validation(self, validation: Validation) -> bool:
        self.seen.append(self.page.read_text())
        return validation.step == self.last


def test_a_run_writes_its_report_after_validations_and_when_it_ends(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.pages.report.page._LEAST", 0.0)
    monkeypatch.setattr("heedful.pages.report.page._SHARE", 1e9)
    console, page = silent(), tmp_path / "run/report.html"
    looks = Looks(page, last=6)
    run = train(make(), tmp_path / "run", console=console, callbacks=[looks])
    (going_on,), stopped = looks.seen, page.read_text()
    assert "Running, at step 6 of 12" in going_on
    assert '<meta http-equiv="refresh"' in going_on
    assert "Stopped at step 6 of 12" in stopped
    assert '<meta http-equiv="refresh"' not in stopped
    assert f"Its curves are in {page}" in told(console)
    train(make(), run, resume=True, console=silent())
    whole = page.read_text()
    assert "Finished at step 12 of 12" in whole
    data = re.search(r'id="data">(.*?)</script>', whole, re.S)
    assert data is not None
    validated = [
        line for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if line["part"] == "valid"
    ]
    (shown,) = (figure for figure in json.loads(data[1])["figures"] if figure["name"] == "loss")
    assert shown["series"][1]["y"] == [line["loss"] for line in validated]


def test_a_run_without_a_report_has_the_same_bits(make: Make, tmp_path: Path) -> None:
    plain = train(make(report=False, steps=4), tmp_path / "plain", console=silent())
    assert not (plain / "report.html").exists()
    reported = train(make(steps=4), tmp_path / "reported", console=silent())
    assert (reported / "report.html").exists()
    same_bits(plain / "model.safetensors", reported / "model.safetensors")


def test_a_resumed_run_may_begin_or_end_its_report(make: Make, tmp_path: Path) -> None:
    run = train(make(report=False, steps=2), tmp_path / "run", console=silent())
    train(make(steps=4), run, resume=True, console=silent())
    assert "Finished at step 4 of 4" in (run / "report.html").read_text()


def test_a_diverged_run_has_a_report_that_says_so(make: Make, tmp_path: Path) -> None:
    recipe = make(schedule={"kind": "constant", "lr": 1e30}, log_every=1, validation={"every": 100}, steps=20)
    with refuses("...The gradient was not finite..."):
        train(recipe, tmp_path / "run", console=silent())
    assert "training diverged" in (tmp_path / "run/report.html").read_text()


def test_a_report_that_cannot_be_written_does_not_end_the_run(make: Make, tmp_path: Path) -> None:
    (tmp_path / "run/report.html").mkdir(parents=True)
    console = silent()
    run = train(make(steps=2), tmp_path / "run", console=console)
    assert (run / "model.safetensors").exists()
    assert told(console).count("training continues without a report") == 1
    assert "Its curves" not in told(console)


def test_validations_with_outputs_keep_samples_which_a_resumed_run_repeats(make: Make, tmp_path: Path) -> None:
    validation = {"every": 2, "metric": "chrf", "max_sentences": 6}
    whole = train(make(steps=4, validation=validation), tmp_path / "whole", console=silent())
    run = train(make(steps=2, validation=validation), tmp_path / "run", console=silent())
    train(make(steps=4, validation=validation), run, resume=True, console=silent())
    lines = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [2, 4]
    assert [len(line["samples"]) for line in lines] == [4, 4]
    assert lines[0]["samples"][0].keys() == {"input", "reference", "output"}
    assert (whole / "samples.jsonl").read_bytes() == (run / "samples.jsonl").read_bytes()
    assert "Samples over time" in (run / "report.html").read_text()
