"""Fine-tuning: a run that starts from a trained model's weights and keeps its vocabulary."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from heedful.config.load import flat, recipe_from_json, recipe_to_json
from heedful.config.schema import Recipe
from heedful.errors import UserError
from heedful.models.build import build_model
from heedful.models.bundle import Bundle, Tokenizers, read_bundle
from heedful.models.weights import set_weights, shapes_of

_UNTOLD = ("data.folder", "data.train", "data.valid", "data.test", "train", "decode", "evaluate")


@dataclass(frozen=True, eq=False)
class Start:
    """What a run begins with, and the recipe made to fit it."""

    recipe: Recipe
    tokenizers: Tokenizers
    bundle: Bundle
    differences: tuple[str, ...]  # what the recipe says otherwise than the start did, in words

    def into(self, model: nn.Module) -> None:
        """Copy the weights."""
        set_weights(model, dict(self.bundle.model.named_parameters()))


def read_start(recipe: Recipe) -> Start:
    """Read the model that a recipe starts from; refuses one of other shapes.

    The tokenizer is always the start's. So is the model where the recipe says nothing of it.
    """
    folder = Path(recipe.train.start_from)
    bundle = read_bundle(folder)
    old = bundle.recipe
    model = recipe.model if "model" in recipe.model_fields_set else old.model
    together = recipe.model_copy(update={"model": model, "tokenizer": old.tokenizer})
    adapted = recipe_from_json(recipe_to_json(together), f"a recipe that starts from {folder}")  # do they fit together?
    _refuse_other_shapes(adapted, bundle, folder)
    return Start(adapted, bundle.tokenizers, bundle, tuple(_differences(recipe, old)))


def _refuse_other_shapes(recipe: Recipe, bundle: Bundle, folder: Path) -> None:
    sizes = bundle.tokenizers.source.size, bundle.tokenizers.target.size
    with torch.device("meta"):
        wanted = shapes_of(dict(build_model(recipe.model, *sizes).named_parameters()))
    if wanted == shapes_of(dict(bundle.model.named_parameters())):
        return
    ours, theirs = recipe.model.model_dump(), bundle.recipe.model.model_dump()
    changed = [key for key in ours if ours[key] != theirs.get(key)]
    told = ", ".join(f"`model.{key}` is {theirs.get(key)!r} there and {ours[key]!r} in the recipe" for key in changed)
    raise UserError(f"{folder} has other shapes than the recipe: {told}. Leave [model] out to take the start's.")


def _differences(recipe: Recipe, old: Recipe) -> Iterator[str]:
    """One line for each key that changes what the model is or reads; the data and the training are new anyway."""
    was, now = flat(recipe_to_json(old)), flat(recipe_to_json(recipe))
    said = recipe.model_fields_set
    for key in sorted(was.keys() | now.keys()):
        section = key.partition(".")[0]
        if was.get(key) == now.get(key) or any(key == part or key.startswith(f"{part}.") for part in _UNTOLD):
            continue
        if section == "tokenizer":
            if "tokenizer" in said:
                yield f"`{key}` stays {was.get(key)!r}, as the vocabulary is kept; the recipe says {now.get(key)!r}"
        elif section in said:
            yield f"`{key}` was {was.get(key)!r} and is {now.get(key)!r}"
