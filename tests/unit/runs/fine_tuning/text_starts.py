"""Models of texts to start from, and recipes that do."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.unit.runs.run_folders import silent
from torch import Tensor

from heedful.base.errors import UserError
from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import write_description, write_weights
from heedful.models.from_recipe.network import build_network
from heedful.runs.progress import RunProgress
from heedful.runs.training_run import prepare_job, train

Values = dict[str, Any]
BERT: Values = {"family": "bert", "width": 8, "heads": 2, "layers": 2, "inner": 12, "max_positions": 20}
CLASSIFIER: Values = {"family": "classifier", "encoder": {**BERT, "family": "transformer"}}
LABELS = ("neg", "neutral", "pos")


def start(folder: Path, model: Values, mask: bool = True) -> Path:
    """A bundle with fresh weights, none of them zero, and a vocabulary of five animals."""
    classifies = model["family"] == "classifier"
    corpus = {"jsonl": "x", "text": "t", "label": "l"} if classifies else {"text": "x"}
    recipe = Recipe.model_validate(
        {"data": {"train": corpus, "max_length": 12}, "tokenizer": {"kind": "word"}, "model": model}
    )
    tokenizer = train_tokenizer(recipe.tokenizer, ["ant bee cat dog eel"], mask=mask)
    vocabularies = Vocabularies({"text": tokenizer}, LABELS if classifies else ())
    made = build_network(recipe.model, vocabularies)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    write_description(folder / "start", recipe, vocabularies)
    write_weights(folder / "start", made)
    return folder / "start"


def values(folder: Path, model: Values | None, second: bool = False, steps: int = 3, **train: Any) -> Values:
    """A recipe that starts from there."""
    corpus = {"jsonl": "t.jsonl", "text": "text", "label": "label"} | ({"second": "second"} if second else {})
    return {
        "data": {"folder": str(folder), "train": [corpus], "valid": [corpus], "batch_tokens": 40, "max_length": 12},
        "train": {
            "steps": steps,
            "start_from": str(folder / "start"),
            "schedule": {"kind": "constant", "lr": 0.01},
            "precision": "float32",
            "device": "cpu",
            **train,
        },
        **({} if model is None else {"model": model}),
    }


def recipe(values: Values) -> Recipe:
    return recipe_from_json(values, "my.toml")


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def state(folder: Path, step: int) -> list[bytes]:
    files = ("model.safetensors", "optimizer.safetensors")
    return [(folder / f"checkpoints/step-{step:08d}" / file).read_bytes() for file in files]


def at_first(values: Values) -> tuple[Recipe, Mapping[str, Tensor], Vocabularies]:
    """A run before its first step."""
    with RunProgress(silent()) as progress:
        job = prepare_job(recipe(values), progress)
    return job.recipe, dict(job.model.named_parameters()), job.vocabularies


def refused(values: Values, out: Path, resume: bool = False) -> str:
    with pytest.raises(UserError) as caught:
        train(recipe(values), out, resume=resume, console=silent())
    assert "\n" not in str(caught.value)
    return str(caught.value)


ON_BERT: Values = {"family": "classifier"}


# --- BERT on BERT -----------------------------------------------------------------------------------------------------


def filling(folder: Path, **model: Any) -> Values:
    (folder / "t.txt").write_text("Ant bee .\nCat dog .\n\nDog eel .\nAnt ant .\n")
    written = values(folder, {"family": "bert", **model} if model else None)
    corpus = {"text": "t.txt", "sentences": "line"}
    return {**written, "data": written["data"] | {"train": [corpus], "valid": []}}


# --- what is refused --------------------------------------------------------------------------------------------------


def other_function(folder: Path, key: str, now: object, was: object) -> str:
    ways = {"family": f'Write `family = "{was}"`', "encoder.family": f'Write `family = "{was}"` in [model.encoder]'}
    way_out = ways.get(key, "Leave the key out")
    return (
        f"`model.{key}` is {json.dumps(now)}, but {folder} was trained with {json.dumps(was)}: its weights would "
        f"be meaningless. {way_out} to use the start's."
    )
