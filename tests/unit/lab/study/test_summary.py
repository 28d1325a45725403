"""Intervals and tests of studies, against definitions that are computed by brute force."""

import random
from statistics import mean
from typing import Any

import numpy as np
import pytest

from heedful.lab.study.summary import adjust, by_length, compare_with_base, spread_of, student_t
from heedful.metrics.significance import SAMPLES


def measured(values: list[list[int]], lengths: list[int] | None = None) -> list[dict[str, Any]]:
    """What is measured of seeds whose score is the share of right items, in percent."""
    return [
        {
            "items": {"scoring": "percent", "lower": False, "counts": [[v, 1] for v in run], "lengths": lengths or []},
            "scores": {"accuracy": 100 * mean(run)},
            "lower": [],
        }
        for run in values
    ]


def right(share: float, items: int, seed: int) -> list[int]:
    chance = random.Random(seed)
    return [int(chance.random() < share) for _ in range(items)]


def test_the_interval_of_a_mean_is_students() -> None:
    assert student_t(2) == pytest.approx(4.302653, abs=1e-5)  # tables of the t distribution
    assert student_t(9) == pytest.approx(2.262157, abs=1e-5)
    spread = spread_of([1.0, 2.0, 3.0])
    assert (spread.mean, spread.deviation) == (2, 1)
    assert spread.high == pytest.approx(2 + 4.302653 / 3**0.5, abs=1e-5)
    assert spread_of([5.0]).low is None


@pytest.mark.parametrize("share", [0.5, 0.56, 0.7])
def test_significance_is_that_of_a_brute_force_bootstrap(share: float) -> None:
    base, cell = [right(0.5, 300, 1)], [right(share, 300, 2)]
    found = compare_with_base(measured(base), measured(cell), "accuracy")
    assert found is not None
    gains = np.subtract(cell[0], base[0])
    picked = np.random.default_rng(5).integers(300, size=(4000, 300))
    drawn = np.sort(100 * gains[picked].mean(1))
    observed = 100 * gains.mean()
    p = (abs(drawn) - abs(drawn).mean() >= abs(observed)).mean()
    assert found["difference"] == pytest.approx(observed)
    assert found["low"] == pytest.approx(drawn[100], abs=1.2)
    assert found["high"] == pytest.approx(drawn[-101], abs=1.2)
    assert found["p_bootstrap"] == pytest.approx(p, abs=0.03)
    assert found["p"] >= found["p_bootstrap"] >= 1 / (1 + SAMPLES)


def test_without_counts_of_items_seeds_alone_are_tested() -> None:
    def side(*values: float) -> list[dict[str, Any]]:
        return [{"items": None, "scores": {"perplexity": value}, "lower": ["perplexity"]} for value in values]

    found = compare_with_base(side(5.0, 5.1, 5.2), side(4.0, 4.1, 4.2), "perplexity")
    assert found is not None
    assert found["difference"] == pytest.approx(-1)
    assert found["p"] == found["p_welch"] < 0.01
    assert found["lower"] is True
    assert compare_with_base([], side(4.0), "perplexity") is None


def test_p_values_are_adjusted_for_their_number() -> None:
    assert adjust({"a": 0.01, "b": 0.04, "c": 0.03, "d": None}) == {
        "a": pytest.approx(0.03), "b": pytest.approx(0.06), "c": pytest.approx(0.06), "d": None,
    }  # fmt: skip
    assert adjust({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


def test_scores_by_length_are_those_of_the_sentences_of_each_length() -> None:
    found = by_length(measured([[1, 0, 1, 1], [1, 1, 1, 1]], lengths=[3, 5, 8, 60]))
    assert found is not None
    assert [(one["span"], one["sentences"], one["mean"]) for one in found] == [
        ("0 to 5", 2, 75.0), ("6 to 10", 1, 100.0), ("51 or more", 1, 100.0),
    ]  # fmt: skip
    assert found[0]["length"] == 4
    assert by_length(measured([[1, 0]])) is None
    assert np.isfinite(found[0]["high"])
