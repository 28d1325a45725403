"""The JSON Schema for editors accepts what the loader accepts, and explains every key."""

import tomllib
from functools import cache
from typing import Any

import jsonschema
import pytest

from heedful.config.reading.describing.json_schema import json_schema
from heedful.config.reading.shipped_recipes import shipped_recipes

DATA = {"train": {"source": "a", "target": "b"}}


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema())


def refused(values: dict[str, Any]) -> bool:
    return not validator().is_valid(values)


def test_it_is_a_schema_of_draft_2020_12() -> None:
    validator().check_schema(json_schema())
    assert json_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_every_shipped_recipe_is_valid(name: str) -> None:
    values = tomllib.loads(shipped_recipes()[name].read_text(encoding="utf-8"))
    validator().validate(values)


@pytest.mark.parametrize(
    "values",
    [
        {"train": {"optimizer": "adamw", "schedule": {"kind": "cosine", "lr": 0.1}}},
        {"train": {"class_weights": {"a": 2.0}, "freeze": 3, "compile": True}},
        {"tokenizer": "char", "model": {"family": "mixed", "encoder": {"preset": "small"}}},
        {"data": {"train": [{"tsv": "a", "text": 1, "label": 2}], "valid": {"jsonl": "b"}}},
    ],
)
def test_every_way_to_write_a_table_is_valid(values: dict[str, Any]) -> None:
    assert not refused({"data": DATA, **values})


@pytest.mark.parametrize(
    "values",
    [
        {"data": DATA, "model": {"layer": 3}},
        {"data": DATA, "model": {"layers": 0}},
        {"data": DATA, "model": {"family": "rnn"}},
        {"data": DATA, "train": {"optimizer": "adadelta"}},
        {"data": DATA, "train": {"optimizer": {"kind": "adam", "weight_decay": 0.1}}},
        {"data": DATA, "train": {"validation": {"metric": "rouge"}}},
        {"data": {"train": []}},
        {"data": {"train": {"source": "a", "jsonl": 3}}},
        {"model": {"layers": 3}},
    ],
)
def test_mistakes_are_found(values: dict[str, Any]) -> None:
    assert refused(values)


def test_a_recipe_that_extends_another_may_leave_out_its_data() -> None:
    assert not refused({"extends": "demo-en-es", "model": {"layers": 3}})


def test_every_key_has_a_description() -> None:
    schema = json_schema()
    tables = [schema, *schema["$defs"].values()]
    keys = [(key, part) for table in tables for key, part in table["properties"].items()]
    assert len(keys) > 250
    assert all(part["description"] for _, part in keys)
