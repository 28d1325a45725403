"""`heedful init FILES...`: look at files, say what they are, and write a first recipe for them."""

import shlex
import sys
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from heedful.base.errors import UserError
from heedful.base.files import write_bytes
from heedful.cli import messages
from heedful.cli.options import SetOption, json_option, option, page_option
from heedful.cli.output import check_output, write_part, write_result
from heedful.first_recipe.choices import Question, refuse_to_guess
from heedful.first_recipe.proposal import Proposal, Wishes, propose
from heedful.first_recipe.writing import WrittenRecipe, describe, write

_SEPARATORS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "bar": "|"}


def command(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE|FOLDER", help="Your files: tables, texts, trees, images; or a folder.")
    ],
    output: Annotated[Path | None, page_option("default: named after the files")] = None,
    task: Annotated[
        str | None, option("What the model is for, such as classify or translate.", "--task", metavar="TASK")
    ] = None,
    column: Annotated[
        list[str] | None,
        option(
            "Column of a role, by name or number: text, label, number, source, target, image ...; repeatable.",
            "--column",
            metavar="ROLE=COLUMN",
        ),
    ] = None,
    separator: Annotated[
        str | None,
        option("Character between the columns of a table: , ; | or tab.", "--separator", metavar="CHARACTER"),
    ] = None,
    header: Annotated[
        bool | None,
        option(
            "Whether the first line of a table has the names of columns.", "--header/--no-header", show_default=False
        ),
    ] = None,
    overrides: SetOption = None,
    as_json: Annotated[bool, json_option("what was found, the recipe and the next commands")] = False,
) -> None:
    """Look at your files, say what they are, and write a recipe for them.

    The recipe names the files, their columns, and a validation set; comments say why, and what training will choose.
    What the files do not tell is asked for on a terminal; elsewhere an option must say it.
    """
    wishes = Wishes(task, _columns(column or ()), _separator(separator), header)
    proposal = propose(files, wishes, _ask if _can_ask() else refuse_to_guess)
    printed = output == Path("-")
    target = Path(f"{proposal.stem}.toml") if output is None or printed else output
    if not printed:
        check_output(target)
        if target.exists():
            raise UserError(f"{target} already exists, and is not overwritten: choose another name with --output.")
    if not as_json:
        for line in chain.from_iterable(map(describe, proposal.files)):
            messages.note(line)
    written = write(proposal, target, overrides or [])
    if not printed:
        write_bytes(target, written.text.encode())
    commands = _next(proposal, written, target)
    if as_json:
        write_result(_as_json(proposal, written, None if printed else target, commands))
        return
    if printed:
        write_part(written.text)
        return
    print(f"{target}: a recipe for {written.recipe.rules.learner} ({proposal.why}). Next:")
    for line in commands:
        print(f"  {line}")


def _columns(given: Any) -> dict[str, str]:
    found = {}
    for each in given:
        role, sign, name = each.partition("=")
        if not (role and sign and name):
            raise UserError(f"--column {each}: must be a role and a column, as in --column label=sentiment.")
        found[role] = name
    return found


def _separator(given: str | None) -> str | None:
    if given is None:
        return None
    found = _SEPARATORS.get(given, given)
    if found not in _SEPARATORS.values():
        raise UserError(f"--separator {given}: must be one of , ; | or tab.")
    return found


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(question: Question) -> int:
    """Ask on the terminal; an empty line is the first answer."""
    messages.write_message(f"{question.where}: {question.what}")
    for number, answer in enumerate(question.answers, start=1):
        messages.write_message(f"  {number}  {answer.words}")
    while True:
        messages.write_message(f"1 to {len(question.answers)} [1]: ", end="")
        line = sys.stdin.readline()
        if not line:
            return refuse_to_guess(question)
        said = line.strip() or "1"
        if said.isdecimal() and 1 <= int(said) <= len(question.answers):
            return int(said) - 1


def _next(proposal: Proposal, written: WrittenRecipe, target: Path) -> list[str]:
    """Return the commands that come next."""
    recipe, run = shlex.quote(str(target)), shlex.quote(f"runs/{written.name}")
    verb, first = written.recipe.rules.verb, shlex.quote(proposal.files[0].path)
    use = {"generate": '--prompt "..."', "fill": '"... [MASK] ..."'}.get(verb, f"--data {first}")
    return [
        f"heedful doctor {recipe}",
        f"heedful train {recipe} --out {run}",
        f"heedful evaluate {run}" + ("" if written.recipe.data.test else " --split valid"),
        f"heedful {verb} {run} {use}",
    ]


def _as_json(proposal: Proposal, written: WrittenRecipe, target: Path | None, commands: list[str]) -> dict[str, object]:
    files = [{**asdict(file), "facts": dict(file.facts)} for file in proposal.files]
    return {
        "files": files,
        "task": proposal.task.name,
        "why": proposal.why,
        "recipe": None if target is None else str(target),
        "text": written.text,
        "next": commands,
    }
