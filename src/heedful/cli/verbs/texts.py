"""`heedful texts`: the equations, figures and tables of five texts about attention, recomputed."""

import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

import typer

from heedful.base.errors import UserError
from heedful.cli.main import command_of, run
from heedful.cli.options import SetOption, json_option, option
from heedful.cli.output import write_result
from heedful.config.reading.bundle_config import read_recipe
from heedful.config.reading.load import load_recipe
from heedful.data.corpora.files import check_files
from heedful.texts.listing import MODEL, Item, Text, count_verdicts, find_item, read_texts

_DEMO: Final = Path("runs/demo")
_SETTABLE: Final = ("train", "study", "demo", "doctor")  # verbs that take --set, for a recipe
_TRANSLATING: Final = ("translate", "plot")  # verbs that need a translator; others take models of other tasks too


def command(
    item: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="Item to recompute, such as thesis-2.9, or text to list (default: all)."),
    ] = None,
    show: Annotated[bool, option("Show the item and its command, without running it.", "--show")] = False,
    model: Annotated[Path, option("Trained translator, for items that need one.", metavar="FOLDER")] = _DEMO,
    set_: SetOption = None,
    as_json: Annotated[
        bool, json_option("the item as one object, before that of its command; of the list, one object per item")
    ] = False,
) -> None:
    """Recompute what five texts about attention print or claim, and compare: equations, figures, tables, listings.

    Equations are computed twice: as the text writes them, and by Heedful. Other items run a command, which may train a
    model: --show shows it without running it. Recipes and studies that need data get its folder with
    `--set data.folder=FOLDER`.
    """
    texts = [text for text in read_texts() if item in (None, text.name)]
    if texts:
        if set_:
            raise UserError(
                "--set: name the item whose command it is for, such as `heedful texts notes-table-3 --set ...`."
            )
        if model != _DEMO:
            raise UserError("--model: name the item that needs it, such as `heedful texts seq2seq-it --model ...`.")
        _list(texts, as_json)
        return
    found = find_item(item or "")
    if set_ and not (found.arguments is not None and found.arguments.split()[0] in _SETTABLE):
        raise UserError(f"--set: {found.id} neither trains a recipe nor runs a study, so there is nothing to set.")
    if model != _DEMO and MODEL not in shlex.split(found.arguments or ""):
        raise UserError(f"--model: {found.id} needs no trained translator.")
    told = [f"{found.id}: {found.what}"]
    told += [f"{name}: {value}" for name, value in (("the text", found.says), ("Heedful", found.found)) if value]
    told.append(f"verdict: {found.verdict}" + (f", {found.why}" if found.why else ""))
    shown = _object(found)
    runs = not (show or found.command is None)
    if not runs:
        settings = "".join(f" --set {shlex.quote(setting)}" for setting in set_ or ())
        told.append(f"command: {found.command}{settings}" if found.command else f"no command: {found.reason}")
    elif found.check is not None:
        from heedful.texts.checks.computed import compute, values_of  # imports torch, which takes seconds
        from heedful.texts.checks.table import CHECKS

        check = CHECKS[found.check]
        computed, inputs = compute(check)
        lines = computed.lines()
        told += [f"computed: {check.__doc__}", *lines]
        shown |= {"computed": check.__doc__, "lines": lines, **values_of(computed, inputs)}
    write_result(shown if as_json else "\n".join(told))
    if runs and found.check is None:
        _run(found, model, set_ or [], as_json)


def _object(item: Item) -> dict[str, object]:
    names = ("id", "section", "what", "says", "found", "verdict", "why", "command")
    return {name: value for name in names if (value := getattr(item, name))}


def _list(texts: Sequence[Text], as_json: bool) -> None:
    if as_json:
        for text in texts:
            for item in text.items:
                write_result({"text": f"{text.author}: {text.title}", **_object(item)})
        return
    for text in texts:
        print(f"{text.author}: {text.title}")
        for item in text.items:
            print(f"  {item.id:34} {item.verdict:19} {item.what}")
    counts = count_verdicts(texts)
    print(f"{sum(counts.values())} items: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))


def _run(item: Item, model: Path, settings: Sequence[str], as_json: bool) -> None:
    arguments = shlex.split(item.arguments or "")
    if MODEL in arguments:
        _check_model(item, model, arguments[0])
    if arguments[0] in _SETTABLE and arguments[1:] and arguments[1:] != ["--list"]:
        _check_files(item, arguments, settings)
    given = [word for setting in settings for word in ("--set", setting)]
    if as_json and has_json(arguments):
        given.append("--json")
    code = run([*(str(model) if argument == MODEL else argument for argument in arguments), *given])
    if code:
        raise typer.Exit(code)


def _check_model(item: Item, model: Path, verb: str) -> None:
    """Refuse a folder that is not there, or a model that cannot do what the item needs."""
    way_out = f"but {item.id} needs a trained translator: run `heedful demo` first, or name one with --model."
    if not model.is_dir():
        raise UserError(f"{model} is not there, {way_out}")
    recipe = read_recipe(model)
    if verb in _TRANSLATING and recipe.rules.verb != "translate":
        raise UserError(f"{model} is a model that {recipe.rules.does}, {way_out}")


def _check_files(item: Item, arguments: Sequence[str], settings: Sequence[str]) -> None:
    """Refuse a recipe or a study whose files are not here, with the way to name their folder."""
    verb, name, *rest = arguments
    given = [value for flag, value in pairwise(rest) if flag == "--set"] + [*settings]
    what = f"{'trains' if verb == 'train' else 'reads'} the recipe `{name}`"
    if verb == "study":
        from heedful.lab.study.definition import find_study, read_study

        cell = read_study(find_study(name), given).cells[0]
        recipe, what, name = cell.load(1), f"runs the study `{name}` of the recipe `{cell.recipe}`", cell.recipe
    else:
        recipe = load_recipe(name, given)
    try:
        for corpus in (*recipe.data.train, *recipe.data.valid):
            check_files(corpus, recipe.data.folder, hinted=False)  # the way out says what `data.folder` is for
    except UserError as error:
        raise UserError(
            f"{str(error).removesuffix('.')}: {item.id} {what}, and `heedful recipes show {name}` says what files that "
            f"needs: name their folder by `heedful texts {item.id} --set data.folder=FOLDER`."
        ) from None


def has_json(arguments: Sequence[str]) -> bool:
    """Whether the verb of a command line writes JSON."""
    command = command_of(arguments[0])
    command = getattr(command, "commands", {}).get(arguments[1] if len(arguments) > 1 else "", command)
    return any("--json" in parameter.opts for parameter in command.params)
