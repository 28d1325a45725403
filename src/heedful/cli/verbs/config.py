"""`heedful config`: check, show and explain recipes."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from heedful.cli.options import RecipeArgument, SetOption
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe

app = typer.Typer(help="Check a recipe, show it with every default, or explain its keys.")

# What a recipe takes over from the model that it starts from, unless it sets it.
_TAKEN_OVER = ("model", "tokenizer", "data.lowercase", "data.nfc", "data.tokenized")


@app.command()
def check(recipe: RecipeArgument, overrides: SetOption = None) -> None:
    """Check a recipe, and report everything that is wrong with it at once.

    If it starts from an existing model, what it takes over from that model is checked too.
    """
    _, missing = _with_start(load_recipe(recipe, overrides or []))
    note = f", but `train.start_from` names {missing}, which does not exist" if missing else ""
    print(f"{recipe}: a correct recipe{note}.")


@app.command()
def show(recipe: RecipeArgument, overrides: SetOption = None) -> None:
    """Show a recipe as TOML, with its base and its overrides; keys that it does not set are comments.

    What does not apply to the recipe's task is left out. If it starts from an existing model, what it takes over from
    that model is shown too.
    """
    from heedful.config.reading.describing.commented import commented_toml

    shown, missing = _with_start(load_recipe(recipe, overrides or []))
    print(commented_toml(shown, _TAKEN_OVER if missing else ()), end="")
    if missing:
        print(
            f"heedful: `train.start_from` names {missing}, which does not exist: what the recipe takes over from it "
            "is not shown.",
            file=sys.stderr,
        )


@app.command()
def explain(
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="A key or a table, such as train.validation.patience.")
    ] = None,
) -> None:
    """Explain a key of a recipe, list the keys of a table or, without KEY, list all tables."""
    from heedful.config.reading.describing import explanation

    print(explanation.list_tables() if key is None else explanation.explain(key), end="")


@app.command()
def schema() -> None:
    """Print the JSON Schema of recipes, by which editors complete and check them."""
    from heedful.config.reading.describing.json_schema import json_schema

    print(json.dumps(json_schema(), indent=2))


def _with_start(recipe: Recipe) -> tuple[Recipe, str]:
    """Return the recipe with what it takes over from its start, and the name of the start if that does not exist."""
    start = recipe.train.start_from
    if not start or not Path(start).expanduser().exists():
        return recipe, start
    from heedful.runs.fine_tuning import with_start  # importing torch takes seconds

    return with_start(recipe), ""
