"""Small parsers for tests: trained for a few steps, or not at all."""

from pathlib import Path
from random import Random
from typing import Any

import torch
from tests.shared.random_trees import random_tree

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import EncoderDecoder
from heedful.tasks.loading import find_task

STACK = {"width": 16, "heads": 2, "layers": 1, "inner": 32}


def write_trees(folder: Path, count: int = 40) -> None:
    """Write train.trees, valid.trees and test.trees, with traces and functions."""
    random = Random(3)
    for part in ("train", "valid", "test"):
        trees = [f"(ROOT {random_tree(random, 1 + number % 9, deepest=3)})" for number in range(count)]
        (folder / f"{part}.trees").write_text("\n".join(trees) + "\n", encoding="utf-8")


def recipe(folder: Path, **tables: Any) -> Recipe:
    """The recipe of a small parser on these trees."""
    said: dict[str, Any] = {
        "task": "parse",
        "data": {"train": {"trees": "train.trees"}, "valid": {"trees": "valid.trees"}, "folder": str(folder)},
        "tokenizer": {"kind": "word", "target": {"kind": "word"}},
        "model": {"family": "transformer", **STACK, "tie": "decoder"},
        "train": {"steps": 2, "device": "cpu", "validation": {"every": 2, "metric": "f1", "max_sentences": 8}},
        "decode": {"beam": 2, "max_extra": 60},
    }
    for name, table in tables.items():
        said[name] = {**said.get(name, {}), **table} if isinstance(table, dict) else table
    return recipe_from_json(said, "test recipe")


def untrained(folder: Path, **tables: Any) -> Bundle[EncoderDecoder]:
    """A parser with random weights."""
    made = recipe(folder, **tables)
    prepared = find_task(made).prepare(made, None, lambda message: None)
    torch.manual_seed(0)
    network = build_network(made.model, prepared.vocabularies)
    assert isinstance(network, EncoderDecoder)
    return Bundle(made, prepared.vocabularies, network.eval())
