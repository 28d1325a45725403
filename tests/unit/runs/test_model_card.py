"""A model card tells how its model is used: each task has its own verb."""

from pathlib import Path
from typing import Any

import pytest
from tests.models.text import classifier_recipe, masked_recipe
from torch import nn

from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.runs.model_card import write_card

PAIRS = {"train": [{"tsv": "x.tsv", "label": 1, "text": 2, "second": 3}], "valid": [], "test": []}


def translator(**corpus: Any) -> Recipe:
    return Recipe(data=Data(train=(AlignedFiles(source="a", target="b", **corpus),)))


def classifier(**data: Any) -> Recipe:
    return classifier_recipe(Path("x"), data=data, train={"validation": {}})


@pytest.mark.parametrize(
    ("recipe", "command", "call"),
    [
        (translator(), "heedful translate x < text.txt", 'translate(["..."])'),
        (translator(to="de"), "heedful translate x --to de < text.txt", 'translate(["..."], to="de")'),
        (classifier(), "heedful classify x < texts.txt", 'classify(["..."])'),
        (classifier(**PAIRS), "heedful classify x < pairs.tsv", 'classify(["..."], ["..."])'),
        (masked_recipe(Path("x")), 'heedful fill x "... [MASK] ..."', 'fill("... [MASK] ...")'),
    ],
)
def test_a_card_shows_the_verb_of_its_task(tmp_path: Path, recipe: Recipe, command: str, call: str) -> None:
    write_card(tmp_path, recipe, nn.Linear(3, 2), "made by hand", {"loss": 0.5}, named=tmp_path / "runs/x")
    card = (tmp_path / "README.md").read_text()
    assert card.startswith(f"# x\n\nA {recipe.model.family} of 8 parameters, made with Heedful ")
    assert "\nmade by hand.\n\n| validation | score |\n|---|---|\n| loss | 0.5000 |\n\n" in card
    assert f"Use it:\n\n    {command}\n\nor in Python:\n" in card
    assert f'    model = heedful.load("x")\n    model.{call}\n' in card


def test_a_model_without_scores_says_so(tmp_path: Path) -> None:
    write_card(tmp_path, translator(), nn.Linear(3, 2), "made by hand", {})
    assert "\nIt was not validated.\n" in (tmp_path / "README.md").read_text()
