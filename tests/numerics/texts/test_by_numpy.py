"""Checks of the texts have the values that independent code in NumPy computes from their inputs."""

import json
from pathlib import Path

import pytest
from benchmarks.texts.texts import DRAWN, draw_items
from tests.numerics.texts.by_numpy import BY_NUMPY, difference

from heedful.texts.checks.table import CHECKS
from heedful.texts.listing import count_verdicts, read_texts

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("check", sorted(BY_NUMPY))
def test_numpy_computes_what_a_check_computes(check: str) -> None:
    assert difference(check) <= 1e-6


def test_every_drawn_item_is_recomputed() -> None:
    drawn = draw_items()
    assert len({item.id for item in drawn}) == DRAWN
    assert [item.id for item in drawn if item.check not in BY_NUMPY] == []
    assert BY_NUMPY.keys() <= CHECKS.keys()


def test_the_record_has_the_verdicts_of_the_lists_and_the_drawn_items() -> None:
    """Where it has not, run `python -m benchmarks.texts.texts`."""
    record = json.loads((ROOT / "benchmarks/results/texts.json").read_text(encoding="utf-8"))
    figures, counts = record["figures"], count_verdicts(read_texts())
    names = {"same": "same", "corrected": "corrected", "measured otherwise": "otherwise", "not run": "not_run"}
    assert {names[verdict]: count for verdict, count in counts.items()} == {
        name: figures[name] for name in names.values()
    }
    assert figures["items"] == sum(counts.values())
    assert list(record["details"]["drawn"]) == [item.id for item in draw_items()]
    assert figures["difference"] <= 1e-6
