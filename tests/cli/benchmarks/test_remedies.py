"""What the benchmark of remedies trains and records."""

import tomllib

import pytest
from benchmarks.translation.remedies import DEEP, RECIPES, REMEDIES, TRIED, compared

from heedful.config.reading.load import load_recipe
from heedful.config.reading.shipped_recipes import shipped_recipe


@pytest.mark.parametrize("part", [*TRIED, *REMEDIES])
def test_all_settings_make_recipes(part: str) -> None:
    deep = part in REMEDIES
    tables = tomllib.loads(shipped_recipe(RECIPES["base" if deep else "best"]).read_text(encoding="utf-8"))
    del tables["train"]["average"]
    recipe = load_recipe(tables, [*DEEP, *REMEDIES[part]] if deep else list(TRIED[part]))
    assert recipe.rules.name == "translate"
    if deep:
        assert recipe.train.steps <= 3000
        assert recipe.pair_model.layers == 12  # type: ignore[union-attr]
        assert recipe.train.schedule.warmup == 0


def test_the_best_recipe_is_compared_with_the_usual_one_over_seeds() -> None:
    """BLEU's counts: lengths of output and reference, matches of four orders, n-grams of four orders."""
    good, poor = [10, 10, 9, 8, 7, 6, 10, 9, 8, 7], [10, 10, 5, 3, 2, 1, 10, 9, 8, 7]
    known = {
        "best": [{"bleu": 42.0, "bleu_2017": 35.0, "bleu_mbr": 42.5, "counts": [good] * 40}] * 2,
        "base": [{"bleu": 41.0, "bleu_2017": 34.0, "counts": [poor] * 40}] * 2,
    }
    figures = compared(known)
    assert (figures["bleu"], figures["base"], figures["bleu_mbr"], figures["bleu_sd"]) == (42.0, 41.0, 42.5, 0.0)
    assert figures["p_value"] < 0.001
    assert compared({**known, "base": known["best"]})["p_value"] == 1
    assert "p_value" not in compared({"best": known["best"]})
