"""`heedful completion SHELL`: a script that completes verbs, options, their values and recipes."""

from typing import Annotated, Literal

import typer

from heedful.cli.completion import SHELLS, OptionWords, VerbWords, words_of
from heedful.cli.main import VERBS, command_of
from heedful.cli.options import OutputOption
from heedful.cli.output import check_output, write_result
from heedful.config.reading.shipped_recipes import shipped_recipes


def command(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
    output: OutputOption = None,
) -> None:
    """Print a script that completes verbs, options, their values and the names of recipes.

    Its first lines say where to put it.
    """
    check_output(output)
    write_result(SHELLS[shell](completed_verbs()), output)


def completed_verbs() -> list[VerbWords]:
    """Return what can follow `heedful` and each of its verbs."""
    recipes = list(shipped_recipes())
    top = tuple(
        OptionWords(flags, line, takes_value=False)
        for flags, line in (
            (("--version",), "Show the version and exit."),
            (("-q", "--quiet"), "Show results, warnings and errors only."),
            (("-v", "--verbose"), "Also show times, memory, and the traceback of an error."),
            (("-h", "--help"), "Show this message and exit."),
        )
    )
    verbs = [VerbWords((), "", top, tuple(VERBS))]
    for verb in VERBS:
        verbs += words_of(command_of(verb), (verb,), recipes)
    return verbs
