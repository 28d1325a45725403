"""Recipes written as JSON and as TOML read back as the same recipe."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.refusals import refuses

from heedful.config.reading.load import load_recipe, recipe_from_json, recipe_to_json, recipe_to_toml
from heedful.config.reading.toml import toml_document
from heedful.config.recipe import Recipe

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def rich_recipe(folder: str, name: str) -> Recipe:
    values: dict[str, Any] = {
        "data": {
            "folder": folder,
            "train": [{"source": name, "target": "b", "weight": 0.1}, {"tsv": "c", "target": 3}],
            "valid": {"jsonl": name},
            "test": [{"builtin": "english-spanish"}],
            "max_ratio": 1.5,
        },
        "tokenizer": {"kind": "word", "min_count": 2},
        "model": {"preset": "big", "layers": 2, "final_norm": True, "norm": "pre"},
        "train": {
            "optimizer": {"kind": "adamw", "epsilon": 1e-12},
            "schedule": {"kind": "cosine", "lr": 3e-4},
            "compile": False,
            "seed": -7,
        },
    }
    return recipe_from_json(values, "here")


@given(folder=TEXTS, name=TEXTS)
def test_json_and_toml_give_the_same_recipe_back(folder: str, name: str) -> None:
    recipe = rich_recipe(folder, name)
    assert recipe_from_json(recipe_to_json(recipe), "config.json") == recipe
    Path("shown.toml").write_bytes(recipe_to_toml(recipe).encode())
    assert load_recipe("shown.toml") == recipe


def test_the_toml_of_a_recipe_reads_well() -> None:
    text = recipe_to_toml(rich_recipe("corpora", "a.en"))
    assert text.startswith(
        '[data]\nfolder = "corpora"\ntrain = [\n'
        '  { name = "", weight = 0.1, lines = "", to = "", variants = false, source = "a.en", target = "b", '
        "references = [] },\n"
        '  { name = "", weight = 1.0, lines = "", to = "", variants = false, tsv = "c", source = 1, target = 3, '
        "header = false },\n]\n"
        'valid = { name = "", weight = 1.0, lines = "", to = "", variants = false, '
        'jsonl = "a.en", source = "source", target = "target" }\n'
    )
    assert '\n\n[tokenizer]\nkind = "word"\njoint = true\nsample = 1000000\nkeep = []\nsize = 50000\n' in text
    assert '\n\n[train.schedule]\nkind = "cosine"\nlr = 0.0003\n' in text
    assert '[evaluate]\nbleu_tokenize = "13a"\ndetokenize = false\n' in text
    assert "None" not in text
    assert "decoder_layers" not in text


def test_toml_has_no_null_so_none_is_left_out() -> None:
    assert toml_document({"a": None, "b": {"c": [{"d": None, "e": 1}], "f": {}}}) == "[b]\nc = { e = 1 }\n\n[b.f]\n"


def test_json_errors_name_the_file_they_are_in() -> None:
    values = recipe_to_json(rich_recipe("", "a"))
    values["model"]["layers"] = None
    values["model"]["family"] = "transformer"
    with refuses("runs/m30k/config.json: `model.layers` is null, but must be a whole number of at least 1."):
        recipe_from_json(values, "runs/m30k/config.json")


@pytest.mark.parametrize("value", [None, [], 3, "x"])
def test_json_that_is_no_object_is_no_recipe(value: object) -> None:
    with refuses("config.json: must hold a recipe, but is not a JSON object."):
        recipe_from_json(value, "config.json")
