"""A small translator learns to read dates."""

from pathlib import Path

import pytest

import heedful

pytestmark = pytest.mark.recipes


def test_a_small_translator_reads_dates_of_days_that_it_never_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It learns in a minute or two on two cores."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    run = heedful.train("dates", tmp_path / "run", quiet=True)
    (found,) = heedful.evaluate(run.folder).values()
    scores = {score.name: score.value for score in found.scores()}
    assert scores["exact_match"] > 0.98
