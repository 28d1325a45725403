"""Bundles of small models with random weights, of every task: what exports and imports are tried on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from heedful.config.recipe import Recipe
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Scale, Vocabularies
from heedful.models.bundle import write_description, write_weights
from heedful.models.from_recipe.network import build_network

TEXTS = (
    "the quick brown fox jumps over the lazy dog",
    "a small bird sings in the old garden",
    "two dogs run after a red ball",
    "nobody saw the ship that came from the north",
)
CORPORA: Mapping[str, Mapping[str, Any]] = {  # of files that do not exist: a model may be without its data
    "translate": {"source": "no.en", "target": "no.de"},
    "parse": {"trees": "no.trees"},
    "fill": {"text": "no.txt"},
    "generate": {"text": "no.txt"},
    "classify": {"tsv": "no.tsv", "text": 1, "label": 2},
    "regress": {"tsv": "no.tsv", "text": 1, "number": 2},
    "tag": {"conll": "no.conll"},
    "answer": {"squad": "no.json"},
    "classify_images": {"images": "no"},
    "regress_images": {"builtin": "scenes"},
    "answer_images": {"builtin": "scenes", "questions": 2},
    "caption": {"builtin": "scenes"},
}
LABELS = {"tag": ("O", "B-x", "I-x")}
KINDS = {"kind": "word", "size": 60}


def random_recipe(task: str, tables: Mapping[str, Any]) -> Recipe:
    """The recipe of a task, with data that is not there, and these tables."""
    data = {"train": dict(CORPORA[task]), **tables.get("data", {})}
    reads = {} if task in ("classify_images", "regress_images") else {"tokenizer": KINDS}
    return Recipe.model_validate({**reads, **tables, "task": task, "data": data})


def write_random_model(folder: Path, task: str, seed: int = 0, languages: Sequence[str] = (), **tables: Any) -> Path:
    """Write a bundle whose weights are all random, biases and the weights of norms too."""
    recipe = random_recipe(task, tables)
    vocabularies = _vocabularies(recipe, languages)
    torch.manual_seed(seed)
    network = build_network(recipe.model, vocabularies)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) / 4)
    folder.mkdir(parents=True)
    write_description(folder, recipe, vocabularies)
    write_weights(folder, network)
    return folder


def _vocabularies(recipe: Recipe, languages: Sequence[str]) -> Vocabularies:
    rules, made = recipe.rules, dict[str, Tokenizer]()
    table: Any = recipe.tokenizer
    for number, name in enumerate(rules.vocabularies):
        if number and table.joint:
            made[name] = made[rules.vocabularies[0]]
            continue
        side = table.target if number and table.target is not None else table
        texts = [text.upper() for text in TEXTS] if number else TEXTS
        texts = [f"(S {text} )" for text in TEXTS] if number and rules.name == "parse" else texts
        made[name] = train_tokenizer(side, texts, languages if not number else (), mask=rules.name == "fill")
    labels = LABELS.get(rules.name, ("bad", "fair", "good")) if rules.labels else ()
    return Vocabularies(made, labels, Scale(2.0, 3.0) if "regress" in rules.name else None)
