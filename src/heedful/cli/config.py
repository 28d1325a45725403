"""`heedful config`: check a recipe, or show it with every default filled in."""

from pathlib import Path

import typer

from heedful.cli.options import RecipeArgument, SetOption
from heedful.config.load import load_recipe, recipe_to_toml

app = typer.Typer(help="Check a recipe, or show it with every default filled in.")


@app.command()
def check(recipe: RecipeArgument, overrides: SetOption = None) -> None:
    """Check a recipe; everything that is wrong with it is said at once."""
    load_recipe(recipe, overrides or [])
    print(f"{recipe}: a correct recipe.")


@app.command()
def show(recipe: RecipeArgument, overrides: SetOption = None) -> None:
    """Show a recipe with its base, its overrides and every default filled in, as TOML.

    Where it starts from a model that is there, what it takes over from it is shown too.
    """
    shown = load_recipe(recipe, overrides or [])
    if shown.train.start_from and Path(shown.train.start_from).expanduser().exists():
        from heedful.api.starting import with_start  # not before: it takes seconds

        shown = with_start(shown)
    print(recipe_to_toml(shown), end="")
