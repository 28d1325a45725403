"""What plots read in recipes: the tables of stacks of layers, and a recipe's network without its data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import tokenizers
import torch
from torch import nn

from heedful.base.errors import UserError
from heedful.base.files import expand_user
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.config.section import Section
from heedful.config.tokenizer import side_of
from heedful.data.tokenize.tokenizer import SPECIALS, Tokenizer
from heedful.data.tokenize.vocabularies import Scale, Vocabularies
from heedful.models.from_recipe.network import build_network

_PARTS: Final = ("encoder", "decoder", "words", "sentences", "question")


def tables_of(table: Section) -> Iterator[Section]:
    """Yield a model's table and the tables within it, outermost first."""
    yield table
    for name in _PARTS:
        inner = getattr(table, name, None)
        if isinstance(inner, Section):
            yield from tables_of(inner)


def recipe_network(recipe: Recipe, classes: int = 2, device: str = "meta") -> nn.Module:
    """Return a recipe's network for vocabularies of the sizes that it sets; on "meta" it has shapes, but no weights.

    Its data is not read. A network with classes has this number of them.
    """
    made = {name: _vocabulary(recipe, name) for name in recipe.rules.vocabularies}
    if recipe.tokenizer.joint and made:
        made = dict.fromkeys(made, next(iter(made.values())))
    labels = tuple(f"class {number + 1}" for number in range(classes))
    with torch.device(device):
        return build_network(recipe.model, Vocabularies(made, labels, Scale(0.0, 1.0)))


def network_of(source: str, overrides: list[str], classes: int) -> tuple[nn.Module, str]:
    """Return the network of a recipe, or of a trained model's folder, and its name in a title."""
    if Path(source).is_dir():
        if overrides:
            raise UserError(f"{source} is a trained model: --set changes recipes only, leave it out.")
        from heedful.tasks.loading import load

        return load(source, "cpu").network, Path(source).resolve().name
    recipe = load_recipe(source, overrides)
    if start := recipe.train.start_from:
        if not expand_user(start).exists():
            raise UserError(
                f"{source} takes its network from the model `{start}` (`train.start_from`), which does not exist: "
                "train that first, or choose another recipe."
            )
        from heedful.runs.fine_tuning import with_start

        recipe = with_start(recipe)
    return recipe_network(recipe, classes), f"{Path(source).name.removesuffix('.toml')}: {recipe.model.family}"


def _vocabulary(recipe: Recipe, name: str) -> Tokenizer:
    """Return a vocabulary of made-up words, of the size in the recipe."""
    size = side_of(recipe.tokenizer, "target" if name == "target" else "source").size
    words = [*SPECIALS, *(f"w{number}" for number in range(len(SPECIALS), size))]
    pieces = {word: index for index, word in enumerate(words)}
    return Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel(pieces, "<unk>")))
