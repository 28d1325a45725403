"""`heedful config`: check a recipe, or show it with every default filled in."""

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
    """Show a recipe with its base, its overrides and every default filled in, as TOML."""
    print(recipe_to_toml(load_recipe(recipe, overrides or [])), end="")
