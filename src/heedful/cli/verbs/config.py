"""`heedful config`: check a recipe, or show it with every default filled in."""

import sys
from pathlib import Path

import typer

from heedful.cli.options import RecipeArgument, SetOption
from heedful.config.reading.load import load_recipe, recipe_to_toml
from heedful.config.recipe import Recipe

app = typer.Typer(help="Check a recipe, or show it with every default filled in.")


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
    """Show a recipe as TOML, with its base, its overrides and every default filled in.

    If it starts from an existing model, what it takes over from that model is shown too.
    """
    shown, missing = _with_start(load_recipe(recipe, overrides or []))
    print(recipe_to_toml(shown), end="")
    if missing:
        print(
            f"heedful: `train.start_from` names {missing}, which does not exist: what the recipe takes over from it "
            "is not shown.",
            file=sys.stderr,
        )


def _with_start(recipe: Recipe) -> tuple[Recipe, str]:
    """Return the recipe with what it takes over from its start, and the name of the start if that does not exist."""
    start = recipe.train.start_from
    if not start or not Path(start).expanduser().exists():
        return recipe, start
    from heedful.runs.fine_tuning import with_start  # importing torch takes seconds

    return with_start(recipe), ""
