"""The help of a command: its usage, what it does, and its arguments and options in two columns.

Typer's own boxes give flags, short flags, types and bounds a column each, which leaves the descriptions a few words per
line on a screen of 80 columns.
"""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import typer

LEFT: Final = 28  # columns of flags and their values; the description of what is longer begins on the next line
_WIDEST: Final = 110  # columns: longer lines are hard to read
_VALUES: Final = {int: "N", float: "X"}  # how a value is called that has no name of its own
_GAP: Final = 2

Row = tuple[str, str]  # an option as a user types it, and what it means


def help_text(command: Any, context: Any) -> str:
    """Return the help of a command, or of a group of them, as wide as the terminal."""
    width = max(40, min(_WIDEST, shutil.get_terminal_size().columns))
    parts = [_wrap(f"Usage: {usage(command, context)}", width, "", " " * 7)]
    parts += [_wrap(paragraph, width, "", "") for paragraph in (command.help or "").split("\n\n")]
    for title, rows in _sections(command, context):
        parts.append("\n".join([typer.style(title, bold=True), *_columns(rows, width)]))
    return "\n\n".join(part for part in parts if part) + "\n"


def usage(command: Any, context: Any) -> str:
    """Return how a command is called: `heedful evaluate [OPTIONS] MODEL...`."""
    words = [context.command_path, "[OPTIONS]"]
    for parameter in _shown(command.get_params(context), "argument"):
        name = _argument(parameter) + ("..." if parameter.nargs == -1 else "")
        words.append(name if parameter.required else f"[{name}]")
    return " ".join(words + (["COMMAND"] if hasattr(command, "commands") else []))


def option_words(parameter: Any) -> str:
    """Return an option as a user types it, with the name of its value: `-o, --output FILE`."""
    flags = sorted(parameter.opts, key=len)
    against = [] if not parameter.secondary_opts else [f"{flags.pop()}/{parameter.secondary_opts[0]}"]
    spelled = ", ".join([*flags, *against])
    return spelled if parameter.is_flag else f"{spelled} {value_name(parameter)}"


def value_name(parameter: Any) -> str:
    """Return how the value of an option is called: by its own name, its choices, or N and X for numbers."""
    return str(parameter.metavar or "|".join(choices_of(parameter)) or _VALUES.get(kind_of(parameter), "TEXT"))


def choices_of(parameter: Any) -> tuple[str, ...]:
    """Return the values that a parameter can have, where they are few."""
    descriptor = getattr(parameter, "type_descriptor", None)  # where Typer brings its own click; else its type has them
    found = getattr(descriptor, "choices", None) or getattr(getattr(parameter, "type", None), "choices", None)
    return tuple(map(str, found or ()))


def kind_of(parameter: Any) -> type:
    """Return the type of a parameter's value: a number's, or that of texts for all others."""
    descriptor = getattr(parameter, "type_descriptor", None)
    found = getattr(descriptor, "annotation", None)
    if found is None:  # of a click that is not Typer's own
        named = getattr(getattr(parameter, "type", None), "name", "")
        found = int if named.startswith("integer") else float if named.startswith("float") else str
    return found if found in (int, float, bool) else str


def _sections(command: Any, context: Any) -> Iterator[tuple[str, list[Row]]]:
    parameters = command.get_params(context)
    arguments = [(_argument(one), one.help or "") for one in _shown(parameters, "argument")]
    if any(meaning for _, meaning in arguments):
        yield "Arguments", arguments
    panels: dict[str, list[Row]] = {"Options": []}
    for one in _shown(parameters, "option"):
        panel = getattr(one, "rich_help_panel", None) or "Options"
        panels.setdefault(str(panel), []).append((option_words(one), _meaning(one)))
    yield from panels.items()
    if hasattr(command, "commands"):
        named = command.commands.items()
        yield "Commands", [(name, (one.help or "").partition("\n")[0]) for name, one in named if not one.hidden]


def _shown(parameters: Sequence[Any], kind: str) -> list[Any]:
    return [one for one in parameters if one.param_type_name == kind and not getattr(one, "hidden", False)]


def _argument(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper()).removesuffix("...")


def _meaning(parameter: Any) -> str:
    """Return the description of an option, with its default where the description does not tell it."""
    meaning, default = parameter.help or "", parameter.default
    if parameter.required:
        return f"{meaning} Required."
    if default in (None, False, "", ()) or not parameter.show_default or "default" in meaning:
        return str(meaning)
    if parameter.secondary_opts:
        default = max(parameter.opts, key=len)
    return f"{meaning.removesuffix('.')} (default: {default})."


def _columns(rows: Sequence[Row], width: int) -> Iterator[str]:
    """Yield rows as lines of two columns."""
    left = max((len(words) for words, _ in rows if len(words) <= LEFT), default=LEFT)
    indent = " " * (_GAP + left + _GAP)
    for words, meaning in rows:
        first = f"{'':{_GAP}}{words:{left}}{'':{_GAP}}"
        if len(words) > left:
            yield f"{'':{_GAP}}{words}"
            first = indent
        yield _wrap(meaning, width, first, indent) or first.rstrip()


def _wrap(text: str, width: int, first: str, others: str) -> str:
    return textwrap.fill(
        " ".join(text.split()),
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
