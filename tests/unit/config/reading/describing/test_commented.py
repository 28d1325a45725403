"""A shown recipe is the same recipe, with what it does not set as comments."""

from pathlib import Path

import pytest

from heedful.config.reading.describing.commented import commented_toml
from heedful.config.reading.load import load_recipe, recipe_from_json
from heedful.config.reading.shipped_recipes import shipped_recipes
from heedful.config.recipe import Recipe


def shown_again(recipe: Recipe, folder: Path) -> Recipe:
    file = folder / "shown.toml"
    file.write_text(commented_toml(recipe), encoding="utf-8")
    return load_recipe(file)


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_every_shipped_recipe_is_the_same_when_it_is_shown(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    again = shown_again(recipe, tmp_path)
    assert again == recipe
    assert again.model_fields_set == recipe.model_fields_set | {"data"}


LABELLED = {"train": {"tsv": "a.tsv", "text": 2, "label": 1}}


def test_keys_that_are_not_set_are_comments_with_default_and_meaning() -> None:
    lines = commented_toml(load_recipe("demo-en-es")).splitlines()
    assert "steps = 1200" in lines
    assert (
        "# accumulate = 1                      # Number of micro-batches in one update (gradient accumulation)."
        in lines
    )
    assert [line for line in lines if line.startswith("# patience = unset  ")]
    assert "# A corpus also takes name, weight, lines, to: `heedful config explain data.train`." in lines
    assert "# [train.optimizer]" in lines


def test_what_does_not_apply_to_the_task_is_left_out(tmp_path: Path) -> None:
    recipe = recipe_from_json({"data": LABELLED, "model": {"family": "classifier"}}, "here")
    text = commented_toml(recipe)
    assert "class_weights" in text
    for other in ("beam", "evaluate", "masking", "max_ratio", "scheduled_sampling", "joint", "translate", " to"):
        assert not any(line.lstrip("# [").startswith(other) for line in text.splitlines()), other
    assert "# [decode]\n# precision = " in text  # the only key of the table that applies to all tasks
    assert shown_again(recipe, tmp_path) == recipe


def test_what_is_set_is_shown_even_where_the_task_does_not_read_it(tmp_path: Path) -> None:
    recipe = recipe_from_json({"data": LABELLED, "model": {"family": "classifier"}, "decode": {"beam": 9}}, "here")
    assert "[decode]\nbeam = 9" in commented_toml(recipe)
    assert shown_again(recipe, tmp_path) == recipe


def test_names_of_classes_that_are_not_plain_words_are_quoted(tmp_path: Path) -> None:
    weights = {"very good": 2.0, 'so "so"': 1.0, "bad": 1.5}
    values = {"data": LABELLED, "model": {"family": "classifier"}, "train": {"class_weights": weights}}
    recipe = recipe_from_json(values, "here")
    assert shown_again(recipe, tmp_path) == recipe


def test_defaults_that_come_from_a_start_are_not_shown() -> None:
    recipe = load_recipe("imdb-few")
    text = commented_toml(recipe, ("model", "tokenizer"))
    assert "[tokenizer]" not in text
    assert "dropout_inner" not in text
