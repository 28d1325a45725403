"""`heedful recipes`: list, show and copy the recipes that ship with Heedful."""

from pathlib import Path
from typing import Annotated

import typer

from heedful.base import files
from heedful.base.errors import UserError
from heedful.cli.options import OutputOption, json_option, option
from heedful.cli.output import check_output, line_writer, write_result
from heedful.config.reading.shipped_recipes import shipped_recipe, shipped_recipes, summary

app = typer.Typer(help="List, show and copy the recipes that ship with Heedful.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A name from `heedful recipes list`.")]


@app.command("list")
def list_recipes(
    as_json: Annotated[bool, json_option("one object per recipe")] = False,
    output: OutputOption = None,
) -> None:
    """List the shipped recipes, one name and summary per line."""
    check_output(output)
    shipped = shipped_recipes()
    width = max(map(len, shipped), default=0)
    with line_writer(output) as write:
        for name, path in shipped.items():
            told = summary(path)
            listed = {"name": name, "summary": told, "path": str(path)}
            write(listed if as_json else f"{name:{width}}  {told}".rstrip())


@app.command()
def show(
    name: NameArgument,
    as_json: Annotated[bool, json_option("one object, with name, summary, path and text")] = False,
) -> None:
    """Show the text of a shipped recipe."""
    path = shipped_recipe(name)
    text = files.read_bytes(path).decode()
    if as_json:
        write_result({"name": path.stem, "summary": summary(path), "path": str(path), "text": text})
    else:
        print(text, end="")


@app.command()
def copy(
    name: NameArgument,
    destination: Annotated[
        Path | None, typer.Argument(metavar="DEST", help="A new file, or a folder (default: NAME.toml here).")
    ] = None,
    force: Annotated[bool, option("Overwrite an existing file.", "--force")] = False,
    as_json: Annotated[bool, json_option("one object, with the name of the recipe and of the copy")] = False,
) -> None:
    """Copy a shipped recipe to edit it, and print the name of the copy."""
    source = shipped_recipe(name)
    target = destination or Path(source.name)
    if target.is_dir():
        target = target / source.name
    if target.exists() and not force:
        raise UserError(f"{target} already exists: choose another name, or overwrite it with --force.")
    check_output(target)
    files.write_bytes(target, files.read_bytes(source))
    write_result({"name": source.stem, "copy": str(target)} if as_json else str(target))
