"""`heedful config`: check, show and explain recipes."""

import json
from typing import Annotated

import typer

from heedful.base.errors import UserError, counted
from heedful.base.files import expand_user
from heedful.cli import messages
from heedful.cli.options import RecipeArgument, SetOption
from heedful.config.corpora.containers import SPLITS
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.data.corpora.formats.lines import check_exists, locate, read_lines
from heedful.defaults.apply import with_followed_defaults

app = typer.Typer(help="Check a recipe and its files, show it with all keys, or explain a key.")

# What a recipe takes over from the model that it starts from, unless it sets it.
_TAKEN_OVER = ("model", "tokenizer", "data.lowercase", "data.nfc", "data.tokenized")


@app.command()
def check(recipe: RecipeArgument, overrides: SetOption = None) -> None:
    """Check a recipe and whether its files exist, and report everything that is wrong at once.

    If it starts from an existing model, what it takes over from that model is checked too.
    """
    checked, missing = _with_start(load_recipe(recipe, overrides or []))
    files = []  # the names of the files of all corpora, each with the key that names it
    for split in SPLITS:
        corpora = getattr(checked.data, split)
        for number, corpus in enumerate(corpora):
            table = f"data.{split}.{number}" if len(corpora) > 1 else f"data.{split}"
            files += [(f"{table}.{key}", name) for key, name in corpus.named_files()]
    faults = [f"`{key}`: {fault}" for key, name in files if (fault := _fault_of(name, checked.data.folder))]
    faults += [f"`train.start_from` names {missing}, which does not exist."] if missing else []
    if faults:
        raise UserError("\n".join(f"{recipe}: {fault}" for fault in faults))
    readable = f", and its {counted(len(files), 'file')} can be read" if files else ""
    print(f"{recipe}: a correct recipe{readable}.")


@app.command()
def show(recipe: RecipeArgument, overrides: SetOption = None) -> None:
    """Show a recipe as TOML, with its base and its overrides; keys that it does not set are comments.

    Defaults that follow the run, from its task, its length and the size of its corpus, are marked. What does not apply
    to the recipe's task is left out. If it starts from an existing model, what it takes over from that model is shown
    too.
    """
    from heedful.config.reading.describing.commented import commented_toml

    shown, missing = _with_start(with_followed_defaults(load_recipe(recipe, overrides or [])))
    print(commented_toml(shown, _TAKEN_OVER if missing else ()), end="")
    if missing:
        messages.warn(
            f"`train.start_from` names {missing}, which does not exist: what the recipe takes over from it "
            "is not shown."
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
    if not start or not expand_user(start).exists():
        return recipe, start
    from heedful.runs.fine_tuning import with_start  # importing torch takes seconds

    return with_start(recipe), ""


def _fault_of(name: str, folder: str) -> str:
    """Return why a file, or a member of an archive, cannot be read; an empty text where it can."""
    file = locate(name, folder)
    try:
        check_exists(file)
        next(read_lines(file), None)
    except UserError as error:
        return str(error)
    return ""
