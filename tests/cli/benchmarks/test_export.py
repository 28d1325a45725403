"""The sweep of exports: it chooses models that formats hold and models that they do not, and finds what is wrong."""

import random
from itertools import combinations
from pathlib import Path

import pytest
from benchmarks.interop import export
from benchmarks.interop.models import KINDS, recipe_of

from heedful.base.errors import UserError
from heedful.interop.exports.formats import FORMATS

TRANSLATOR, LANGUAGE, CLASSIFIER = KINDS[:3]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "DRAWN", 400)


@pytest.mark.usefixtures("few")
def test_pairs_of_values_occur_together_and_what_is_not_held_occurs_too() -> None:
    form = FORMATS["ctranslate2"]
    made = [*export.combinations_of(form, LANGUAGE, 12)]
    assert [each.options for each in made] == [each.options for each in export.combinations_of(form, LANGUAGE, 12)]
    recipes = [recipe_of(LANGUAGE, each.options) for each in made]
    held = [each.options for each, recipe in zip(made, recipes, strict=True) if recipe and not form.refusals(recipe)]
    assert len(held) == 12
    pairs = {pair for options in held for pair in combinations(options.items(), 2)}
    drawn = random.Random(0).sample(held, 6)
    assert len(pairs) > 1.3 * len({pair for options in drawn for pair in combinations(options.items(), 2)})
    assert {"alibi", 2} <= {value for each in made for value in each.options.values()}


@pytest.mark.usefixtures("few")
def test_a_kind_that_a_format_does_not_hold_is_refused_once(tmp_path: Path) -> None:
    (made,) = export.combinations_of(FORMATS["ctranslate2"], CLASSIFIER, 12)
    assert export.try_out(made, tmp_path) == {"outcome": "refused", "key": "model.family"}


@pytest.mark.usefixtures("few")
def test_other_errors_and_other_answers_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = next(iter(export.combinations_of(FORMATS["ctranslate2"], TRANSLATOR, 1)))

    def failing(*given: object) -> None:
        raise UserError("The model answers differently.")

    monkeypatch.setattr(export, "export_model", failing)
    assert export.try_out(made, tmp_path / "a") == {"outcome": "wrong", "why": "The model answers differently."}
    monkeypatch.setattr(export, "export_model", lambda *given: 1 / 0)
    assert export.try_out(made, tmp_path / "b") == {"outcome": "wrong", "why": "ZeroDivisionError: division by zero"}


def test_a_model_of_a_kind_is_exported(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    made = next(iter(export.combinations_of(FORMATS["ctranslate2"], TRANSLATOR, 1)))
    assert export.try_out(made, tmp_path)["outcome"] == "exported"
