"""`heedful config`: check, show and explain recipes."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from heedful.base.errors import UserErrors
from heedful.base.files import expand_user
from heedful.cli import messages
from heedful.cli.options import RecipeArgument, SetOption, json_option
from heedful.cli.output import write_result
from heedful.config.reading.load import load_recipe, recipe_to_json
from heedful.config.recipe import Recipe
from heedful.defaults.apply import with_followed_defaults

app = typer.Typer(help="Check a recipe and its files, show it with all keys, or explain a key.")

# What a recipe takes over from the model that it starts from, unless it sets it.
_TAKEN_OVER = ("model", "tokenizer", "data.lowercase", "data.nfc", "data.tokenized")


@app.command()
def check(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    as_json: Annotated[bool, json_option("errors, warnings, and what was read")] = False,
) -> None:
    """Check a recipe and the first rows of its files, and report everything that is wrong at once.

    If it starts from an existing model, what it takes over from that model is checked too.
    """
    checked, missing = _with_start(load_recipe(recipe, overrides or []))
    from heedful.doctor.corpora.first_rows import check_first_rows

    checked = with_followed_defaults(checked)  # refuses what it would refuse in training
    found = check_first_rows(checked)
    found.errors += [f"`train.start_from` names {missing}, which does not exist."] if missing else []
    if as_json:
        corpora = [asdict(corpus) for corpus in found.corpora]
        warnings = [{"file": one.file, "what": one.what, "advice": one.advice} for one in found.warnings]
        write_result({"recipe": recipe, "errors": found.errors, "warnings": warnings, "corpora": corpora})
    if found.errors:
        raise UserErrors(f"{recipe}: {error}" for error in found.errors)
    if as_json:
        return
    for warning in found.warnings:
        messages.warn(f"warning: {warning.file}: {warning.what}. {warning.advice}")
    correct = "a correct recipe, but see the warning above" if found.warnings else "a correct recipe"
    read = [*map(str, found.corpora), *([checked.held_out] if checked.held_out else [])]
    write_result("\n".join([f"{recipe}: {correct}.", *(f"  {line}" for line in read)]))


@app.command()
def show(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    as_json: Annotated[bool, json_option("all keys of the recipe, as one object")] = False,
) -> None:
    """Show a recipe as TOML, with its base and its overrides; keys that it does not set are comments.

    Defaults that follow the run, from its task, its length and the size of its corpus, are marked. What does not apply
    to the recipe's task is left out. If it starts from an existing model, what it takes over from that model is shown
    too.
    """
    from heedful.config.reading.describing.commented import commented_toml

    shown, missing = _with_start(with_followed_defaults(load_recipe(recipe, overrides or [])))
    if as_json:
        write_result(recipe_to_json(shown))
    else:
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
    as_json: Annotated[
        bool, json_option("one object per key, with path, value, default, meaning and the tasks that it applies to")
    ] = False,
) -> None:
    """Explain a key of a recipe, list the keys of a table or, without KEY, list all tables."""
    from heedful.config.reading.describing import explanation

    told = explanation.list_tables() if key is None else explanation.explain(key)
    if not as_json:
        print(told, end="")
        return
    for entry in explanation.described(key):
        write_result(entry)


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
