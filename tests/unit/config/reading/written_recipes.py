"""Recipes as a user writes them: texts in files, and what loading them says."""

from pathlib import Path

import pytest

from heedful.base.errors import UserError, on_command_line
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe

DATA = '[data]\ntrain = { source = "a.en", target = "a.de" }\n'
SHIPPED = "transformer-base-wmt14"


def recipe_file(text: str, name: str = "my.toml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def load(text: str, *overrides: str) -> Recipe:
    return load_recipe(recipe_file(text), overrides)


def complaints(text: str, *overrides: str) -> list[str]:
    """What the command line says of a recipe and its --set."""
    with on_command_line(), pytest.raises(UserError) as caught:
        load(text, *overrides)
    return str(caught.value).splitlines()
