"""Fine-tuning: a run that starts from a trained model's weights and keeps its vocabulary."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import nn

from heedful.config.load import recipe_from_json, recipe_to_json
from heedful.config.schema import Recipe, Section
from heedful.errors import UserError
from heedful.models.build import build_model
from heedful.models.bundle import Bundle, Tokenizers, read_bundle
from heedful.models.weights import set_weights, shapes_of

# What weights were trained for and shapes do not tell: another value makes them meaningless.
SHAPELESS: Final = ("heads", "activation", "norm", "positions")
_SHAPES: Final = (
    "width", "layers", "decoder_layers", "inner", "activation", "final_norm", "max_positions", "max_distance", "tie",
)  # fmt: skip
_TEXT_FORM: Final = ("nfc", "lowercase", "tokenized")  # of [data]


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
    """Read the model that a recipe starts from; refuses one of other shapes, or that would compute otherwise."""
    folder = Path(recipe.train.start_from).expanduser()
    bundle = read_bundle(folder)
    together = adapted(recipe, bundle.recipe)
    checked = recipe_from_json(recipe_to_json(together), f"a recipe that starts from {folder}")  # do they fit together?
    _refuse_other_function(checked, bundle.recipe, folder)
    _refuse_other_shapes(checked, bundle, folder)
    return Start(checked, bundle.tokenizers, bundle, tuple(_differences(recipe, bundle.recipe)))


def adapted(recipe: Recipe, start: Recipe) -> Recipe:
    """A recipe with the start's tokenizer, and with the start's [model] and form of text where it says nothing."""
    said = {key: getattr(recipe.model, key) for key in recipe.model.model_fields_set}
    form = {key: getattr(start.data, key) for key in _TEXT_FORM if key not in recipe.data.model_fields_set}
    model = start.model.model_copy(update=said if "model" in recipe.model_fields_set else {})
    data = recipe.data.model_copy(update=form)
    return recipe.model_copy(update={"model": model, "data": data, "tokenizer": start.tokenizer})


def _refuse_other_function(recipe: Recipe, start: Recipe, folder: Path) -> None:
    for key in SHAPELESS:
        was, now = getattr(start.model, key), getattr(recipe.model, key)
        if was != now:
            raise UserError(
                f"`model.{key}` is {now!r}, but {folder} was trained with {was!r}: its weights would mean nothing. "
                "Leave the key out to take the start's."
            )


def _refuse_other_shapes(recipe: Recipe, bundle: Bundle, folder: Path) -> None:
    sizes = bundle.tokenizers.source.size, bundle.tokenizers.target.size
    with torch.device("meta"):
        wanted = shapes_of(dict(build_model(recipe.model, *sizes).named_parameters()))
    if wanted == shapes_of(dict(bundle.model.named_parameters())):
        return
    ours, theirs = recipe.model.model_dump(), bundle.recipe.model.model_dump()
    changed = [key for key in _SHAPES if ours[key] != theirs[key]]
    told = ", ".join(f"`model.{key}` is {theirs[key]!r} there and {ours[key]!r} in the recipe" for key in changed)
    raise UserError(
        f"{folder} has other shapes than the recipe: {told}. Leave keys of [model] out to take the start's."
    )


def _differences(recipe: Recipe, start: Recipe) -> Iterator[str]:
    """One line for each key that the recipe sets and the start has otherwise; data and training are new anyway."""
    said = [("model", recipe.model, start.model), ("data", recipe.data, start.data)]
    for section, ours, theirs in said:
        for key in sorted(ours.model_fields_set & {*_TEXT_FORM, *type(recipe.model).model_fields}):
            was, now = getattr(theirs, key), getattr(ours, key)
            if was != now:
                yield f"`{section}.{key}` was {_shown(was)} and is {_shown(now)}"
    if "tokenizer" in recipe.model_fields_set:
        was, now = start.tokenizer.model_dump(), recipe.tokenizer.model_dump()
        for key in sorted(key for key in was.keys() | now.keys() if was.get(key) != now.get(key)):
            kept = f"stays {_shown(was.get(key))}, as the vocabulary is kept"
            yield f"`tokenizer.{key}` {kept}; the recipe says {_shown(now.get(key))}"


def _shown(value: object) -> str:
    return repr(value.model_dump() if isinstance(value, Section) else value)
