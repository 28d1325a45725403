"""`heedful recipes`: list, show and copy the recipes that ship with Heedful."""

from pathlib import Path
from typing import Annotated

import typer

from heedful import files
from heedful.config.reading.shipped_recipes import shipped_recipe, shipped_recipes, summary
from heedful.errors import UserError

app = typer.Typer(help="List, show and copy the recipes that ship with Heedful.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A name from `heedful recipes list`.")]


@app.command("list")
def list_recipes() -> None:
    """List the shipped recipes, one name and summary per line."""
    shipped = shipped_recipes()
    width = max(map(len, shipped), default=0)
    for name, path in shipped.items():
        print(f"{name:{width}}  {summary(path)}".rstrip())


@app.command()
def show(name: NameArgument) -> None:
    """Show the text of a shipped recipe."""
    print(files.read_bytes(shipped_recipe(name)).decode(), end="")


@app.command()
def copy(
    name: NameArgument,
    destination: Annotated[
        Path | None, typer.Argument(metavar="DEST", help="A new file, or a folder (default: NAME.toml here).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Copy a shipped recipe to edit it, and print the name of the copy."""
    source = shipped_recipe(name)
    target = destination or Path(source.name)
    if target.is_dir():
        target = target / source.name
    if target.exists() and not force:
        raise UserError(f"{target} already exists: choose another name, or overwrite it with --force.")
    files.write_bytes(target, files.read_bytes(source))
    print(target)
