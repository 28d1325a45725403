"""Recipes of earlier versions: the names that keys and kinds had are still read."""

from pathlib import Path

from heedful.config.reading.load import load_recipe, recipe_from_json
from heedful.config.recipe import Recipe


def _recipe(family: str, pictures: str, picture: str, task: str) -> dict[str, object]:
    corpus = {"tsv": "photos.tsv", picture: 1, "label": 2}
    return {
        "task": task,
        "data": {"train": [corpus], "valid": corpus, pictures: {"height": 32}},
        "model": {"family": family},
    }


OLD = _recipe("picture_classifier", "pictures", "picture", "classify_pictures")
NEW = _recipe("image_classifier", "images", "image", "classify_images")


def test_an_old_recipe_is_the_recipe_with_the_names_of_today() -> None:
    assert load_recipe(OLD) == load_recipe(NEW)
    assert recipe_from_json(OLD, "config.json") == recipe_from_json(NEW, "config.json")


def test_a_file_may_extend_an_old_recipe(tmp_path: Path) -> None:
    base = '[data]\ntrain = { pictures = "photos" }\n[model]\nfamily = "picture_classifier"\n'
    (tmp_path / "base.toml").write_text(base)
    (tmp_path / "new.toml").write_text('extends = "base.toml"\n[data.images]\nheight = 8\n')
    recipe: Recipe = load_recipe(tmp_path / "new.toml")
    assert (recipe.rules.name, recipe.data.images.size) == ("classify_images", (8, 8))


def test_cache_keys_keep_the_names_that_keys_had_first() -> None:
    assert load_recipe(NEW).data.train[0].options()["picture"] == 1


def test_values_are_left_as_they_are() -> None:
    columns = {"csv": "photos.csv", "picture": "picture", "label": "pictures"}
    (corpus,) = load_recipe({**OLD, "data": {"train": columns}}).data.train
    assert corpus.model_dump(include={"image", "label"}) == {"image": "picture", "label": "pictures"}
