"""Options that several verbs share, so that they are called and explained the same everywhere."""

from typing import Annotated

import typer

RecipeArgument = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe's file, or a shipped recipe's name.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="Set one key of the recipe, such as model.layers=3; repeatable."),
]
