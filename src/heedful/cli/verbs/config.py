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
    """Check a recipe; everything that is wrong with it is said at once.

    Where it starts from a model that is there, what it takes over from it is checked too.
    """
    _, missing = _with_start(load_recipe(recipe, overrides or []))
    known = f", but {missing} is not there, which `train.start_from` names" if missing else ""
    print(f"{recipe}: a correct recipe{known}.")


@app.command()
def show(recipe: RecipeArgument, overrides: SetOption = None) -> None:
    """Show a recipe with its base, its overrides and every default filled in, as TOML.

    Where it starts from a model that is there, what it takes over from it is shown too.
    """
    shown, missing = _with_start(load_recipe(recipe, overrides or []))
    print(recipe_to_toml(shown), end="")
    if missing:
        print(
            f"heedful: {missing} is not there, which `train.start_from` names: what is taken over from it is not "
            "shown.",
            file=sys.stderr,
        )


def _with_start(recipe: Recipe) -> tuple[Recipe, str]:
    """The recipe with what it takes over from its start; and the start where it should be there and is not."""
    start = recipe.train.start_from
    if not start or not Path(start).expanduser().exists():
        return recipe, start
    from heedful.runs.fine_tuning import with_start  # not before: it takes seconds

    return with_start(recipe), ""
