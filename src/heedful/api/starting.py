"""Fine-tuning: a run that starts from a trained model's weights and keeps its vocabulary."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import nn

from heedful.config.load import flat, recipe_from_json, recipe_to_json
from heedful.config.schema import Recipe
from heedful.config.section import Section
from heedful.errors import UserError
from heedful.models.build import build_model
from heedful.models.bundle import Bundle, Tokenizers, read_bundle
from heedful.models.weights import set_weights, shapes_of

# What weights were trained for and shapes do not tell: another value makes them meaningless.
SHAPELESS: Final = (
    "family", "heads", "activation", "norm", "positions", "alignment", "wiring", "cell", "reverse_source",
    "input_feeding",
)  # fmt: skip
_FREE: Final = ("preset", "backend", "temperature", "variational")  # beside all dropout: they change no weight's shape
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
    _refuse_other_family(recipe, bundle.recipe, folder)
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


def other_function(one: Recipe, other: Recipe) -> tuple[str, object, object] | None:
    """The first key of [model] that shapes do not tell and that two recipes have otherwise, with both values."""
    ours, theirs = flat(one.model.model_dump()), flat(other.model.model_dump())
    keys = [key for shapeless in SHAPELESS for key in (*ours, *theirs) if key.split(".")[-1] == shapeless]
    return next(((key, ours.get(key), theirs.get(key)) for key in keys if ours.get(key) != theirs.get(key)), None)


def _refuse_other_family(recipe: Recipe, start: Recipe, folder: Path) -> None:
    """Before anything is taken over from a model that has other keys."""
    if "model" in recipe.model_fields_set and recipe.model.family != start.model.family:
        raise _other_function("family", recipe.model.family, start.model.family, folder)


def _refuse_other_function(recipe: Recipe, start: Recipe, folder: Path) -> None:
    other = other_function(recipe, start)
    if other:
        raise _other_function(*other, folder)


def _other_function(key: str, now: object, was: object, folder: Path) -> UserError:
    way_out = f'Write `family = "{was}"`' if key == "family" else "Leave the key out"
    return UserError(
        f"`model.{key}` is {now!r}, but {folder} was trained with {was!r}: its weights would mean nothing. "
        f"{way_out} to take the start's."
    )


def _refuse_other_shapes(recipe: Recipe, bundle: Bundle, folder: Path) -> None:
    sizes = bundle.tokenizers.source.size, bundle.tokenizers.target.size
    with torch.device("meta"):
        wanted = shapes_of(dict(build_model(recipe.model, *sizes).named_parameters()))
    if wanted == shapes_of(dict(bundle.model.named_parameters())):
        return
    ours, theirs = flat(recipe.model.model_dump()), flat(bundle.recipe.model.model_dump())
    changed = [key for key in ours if ours[key] != theirs.get(key) and not _is_free(key.split(".")[-1])]
    told = ", ".join(f"`model.{key}` is {theirs.get(key)!r} there and {ours[key]!r} in the recipe" for key in changed)
    raise UserError(
        f"{folder} has other shapes than the recipe: {told}. Leave keys of [model] out to take the start's."
    )


def _is_free(key: str) -> bool:
    return key in _FREE or key.startswith("dropout")


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
