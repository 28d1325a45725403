"""Tiny recipes of all tasks, with the features whose state must survive; a run takes a fraction of a second."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import torch
from tests.shared.minimal_recipes import minimal_recipe
from tests.shared.minimal_recipes import write_files as write_files

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.training.objectives import Sums
from heedful.training.updates import ModelLoss

STEPS: Final = 6
Table = Mapping[str, Any]
_STACK: Final = {"width": 8, "heads": 2, "layers": 1, "inner": 8, "dropout": 0.1}
_POSITIONS: Final = {**_STACK, "max_positions": 32}
_VIT: Final = {"family": "vit", "width": 8, "heads": 2, "layers": 1, "inner": 8, "patch": 16, "grid": 4, "dropout": 0.1}
_CONVOLUTIONS: Final = {"family": "convolutional", "channels": 1, "width": 4, "stages": 4, "depth": 1}
_WORDS: Final = ("tag", "parse", "answer", "answer_images", "caption")  # whose texts are words; letters are faster
_SHORT: Final = {"max_length": 32}
_IMAGES: Final = {"batch_tokens": 340}
NOT_FINITE: Final = "translate-not-finite"  # losses of some batches are not finite: see `harms`
BRIEF: Final = "translate-brief"  # has few file operations
TEACHER: Final = "teacher"  # folder of a model that another one learns from


# Name: the task, and tables that are added to its recipe.
RECIPES: Final[Mapping[str, tuple[str, Table]]] = {
    "translate": ("translate", {"model": _STACK, "train": {"average": {"last": 2}, "clip_norm": 1.0}}),
    BRIEF: ("translate", {"model": _STACK, "train": {"steps": 2, "checkpoint_every": 1, "average": {"last": 2}}}),
    "translate-recurrent": (
        "translate",
        {
            "model": {"family": "recurrent", "width": 8, "encoder_width": 4, "dropout": 0.1},
            "train": {"scheduled_sampling": {"kind": "linear", "slope": 0.1}, "accumulate": 2},
        },
    ),
    "translate-pieces": (
        "translate",
        {
            "tokenizer": {"kind": "byte_bpe", "size": 300},
            "model": {**_STACK, "norm": "pre"},
            "train": {"bpe_dropout": 0.1, "r_drop": 1.0, "keep_checkpoints": 3},
        },
    ),
    NOT_FINITE: ("translate", {"model": _STACK, "train": {"steps": 8}}),
    "distilled": ("translate", {"model": _STACK, "train": {"distill": {"teacher": TEACHER}}}),
    "fine-tuned": ("translate", {"model": {}, "train": {"start_from": TEACHER}}),
    "classify": (
        "classify",
        {
            "model": {"encoder": {"family": "transformer", **_STACK}, "pool": "attention"},
            "train": {"average": {"best": 2}, "class_weights": "balanced"},
        },
    ),
    "regress": (
        "regress",
        {"model": {"encoder": {"family": "bag", "width": 4}}, "train": {"validation": {"every": 1, "patience": 2}}},
    ),
    "tag": (
        "tag",
        {"model": {"encoder": {"family": "recurrent", "width": 4, "dropout": 0.2}}, "train": {"moving_average": 0.9}},
    ),
    "parse": ("parse", {"model": _STACK}),
    "answer": ("answer", {"model": {"encoder": {"family": "transformer", **_STACK}}}),
    "fill": ("fill", {"data": _SHORT, "model": _POSITIONS, "train": {"optimizer": {"kind": "adamw"}}}),
    "generate": (
        "generate",
        {
            "data": _SHORT,
            "model": {"decoder": {"family": "transformer", **_POSITIONS}},
            "train": {"instruments": {"every": 2, "at": [1]}, "warmup": {"kind": "untuned_linear"}},
        },
    ),
    "generate-carried": (
        "generate",
        {
            "data": _SHORT,
            "model": {"decoder": {"family": "recurrent", "cell": "lstm", "width": 8, "dropout": 0.1}},
            "train": {"moving_average": 0.5, "instruments": {"every": 3}},
        },
    ),
    "classify-images": (
        "classify_images",
        {"data": _IMAGES, "model": {"encoder": _VIT}, "train": {"augmentation": {"shift": 2, "rotation": 10.0}}},
    ),
    "regress-images": ("regress_images", {"data": _IMAGES, "model": {"encoder": _CONVOLUTIONS}}),
    "answer-images": (
        "answer_images",
        {
            "data": {"batch_tokens": 600, "max_length": 20},
            "model": {"encoder": _VIT, "question": {"family": "transformer", **_STACK}},
        },
    ),
    "caption": (
        "caption",
        {"data": _IMAGES, "model": {"encoder": _VIT, "decoder": {"family": "transformer", **_STACK}}},
    ),
}


@contextmanager
def harms() -> Iterator[None]:
    """Make the losses of some batches infinite, or not a number, by what is in them."""
    whole = ModelLoss.__call__

    def harmed(loss: ModelLoss[Any], batch: Any) -> Sums:
        sums = whole(loss, batch)
        match int(batch.labels.sum()) % 5:
            case 0:
                return replace(sums, loss=sums.loss * torch.nan)
            case 1:
                return replace(sums, loss=sums.loss + torch.inf)
            case _:
                return sums

    with patch.object(ModelLoss, "__call__", harmed):
        yield


def make_recipe(name: str, home: Path) -> Recipe:
    """Return a recipe on the files that `prepare` wrote into a folder."""
    task, tables = RECIPES[name]
    recipe = minimal_recipe(task, home)
    train = {
        "steps": STEPS,
        "schedule": {"kind": "constant", "lr": 0.01},
        "precision": "float32",
        "device": "cpu",
        "threads": 1,
        "log_every": 3,
        "checkpoint_every": 2,
        "validation": {"every": 2},
        **tables.get("train", {}),
    }
    for key, value in train.items():
        if key == "distill":
            train[key] = {**value, "teacher": str(home / TEACHER)}
        elif key == "start_from":
            train[key] = str(home / TEACHER)
    cut = tables.get("tokenizer", {"kind": "word" if task in _WORDS else "char"})
    without = "distill" in train or "start_from" in train or task in ("classify_images", "regress_images")
    data = {key: value for key, value in recipe["data"].items() if key != "test"}
    valid = {**data["valid"], **({"count": 4} if "builtin" in data["valid"] else {"lines": "1-8"})}
    return recipe_from_json(
        {
            **recipe,
            "data": {**data, "valid": valid, "batch_tokens": 200, **tables.get("data", {})},
            **({} if without else {"tokenizer": cut}),
            "model": {**recipe.get("model", {}), **tables.get("model", {})},
            "train": train,
        },
        name,
    )
