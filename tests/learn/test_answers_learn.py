"""A reader answers questions about reports whose combinations of words it has never seen."""

from pathlib import Path

import pytest

import heedful

pytestmark = pytest.mark.recipes


def test_a_small_reader_answers_questions_about_unseen_combinations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It learns in two or three minutes on two cores; a reader that picks an event at random is right in a third."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    run = heedful.train("reports-answers", tmp_path / "run", quiet=True)
    (found,) = heedful.evaluate(run.folder).values()
    scores = {score.name: score.value for score in found.scores()}
    assert scores["exact_match"] >= 0.95
