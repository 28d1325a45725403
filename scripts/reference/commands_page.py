"""docs/reference/commands.md: every command and option, from the signatures that Typer reads."""

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from heedful.cli.main import VERBS

_INTRODUCTION = """\
# Command reference

Every command of `heedful` with its arguments and options. `heedful COMMAND -h` says the same in a terminal.
Every command also takes `-h` (`--help`), `-q` (`--quiet`: no notes and no progress) and `-v` (`--verbose`: also times,
memory and tracebacks).

| exit code | |
|---|---|
| 0 | done |
| 2 | a mistake in the command, a recipe or a file |
| 3 | a failure of the machine: disk, memory, permissions |
| 130 | interrupted |
| 129, 143 | stopped by a signal, after everything was saved |
| 141 | the reader of the output went away |
| 1 | a bug, with its traceback |
"""
_PLAIN = {int: "a whole number", float: "a number"}


def commands_page() -> str:
    """Return the page."""
    blocks = [_INTRODUCTION]
    for verb, (module, line) in VERBS.items():
        blocks += _verb(import_module(module), f"heedful {verb}", line)
    return "\n\n".join(block.strip("\n") for block in blocks) + "\n"


def _verb(module: Any, name: str, line: str) -> Iterator[str]:
    yield f"## {name}"
    if not hasattr(module, "app"):
        yield from _command(module.command, name)
        return
    yield line
    for registered in module.app.registered_commands:
        inside = registered.name or registered.callback.__name__
        yield f"### {name} {inside}"
        yield from _command(registered.callback, f"{name} {inside}")


def _command(function: Callable[..., Any], name: str) -> Iterator[str]:
    """Yield the usage of a command, its help text and its parameters."""
    parameters = [each for each in inspect.signature(function).parameters.values() if _info(each) is not None]
    arguments = [each for each in parameters if isinstance(_info(each), typer.models.ArgumentInfo)]
    options = [each for each in parameters if each not in arguments and not _info(each).hidden]
    yield f"```\n{' '.join([name, *map(_usage, arguments), *(['[OPTIONS]'] if options else [])])}\n```"
    yield "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(function) or "").split("\n\n"))
    if parameters:
        rows = [*map(_argument_row, arguments), *map(_option_row, options)]
        yield "\n".join(["| argument or option | default | meaning |", "|---|---|---|", *rows])


def _info(parameter: inspect.Parameter) -> Any:
    """Return what Typer is told about a parameter; None where it is not one of the command line."""
    if get_origin(parameter.annotation) is not Annotated:
        return None
    kinds = (typer.models.ArgumentInfo, typer.models.OptionInfo)
    return next((each for each in get_args(parameter.annotation)[1:] if isinstance(each, kinds)), None)


def _usage(parameter: inspect.Parameter) -> str:
    name = _info(parameter).metavar or parameter.name.upper()
    several = "..." if get_origin(_type(parameter)) is list else ""
    return f"{name}{several}" if _is_required(parameter) else f"[{name}{several}]"


def _argument_row(parameter: inspect.Parameter) -> str:
    return _row(f"`{_info(parameter).metavar or parameter.name.upper()}`", parameter)


def _option_row(parameter: inspect.Parameter) -> str:
    info = _info(parameter)
    given = [info.default] if isinstance(info.default, str) else []  # where Typer keeps the first flag of an annotation
    names = [*given, *(info.param_decls or ())] or [f"--{parameter.name.replace('_', '-')}"]
    return _row(" ".join([", ".join(f"`{name}`" for name in names), _value(parameter)]).strip(), parameter)


def _row(shown: str, parameter: inspect.Parameter) -> str:
    default = parameter.default
    written = "required" if _is_required(parameter) else "" if default in (None, False, "") else f"`{default}`"
    meaning = " ".join((_info(parameter).help or "").split()).replace("|", "\\|")
    shown = shown.replace("|", "\\|")
    return f"| {shown} | {written} | {meaning} |"


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default in (inspect.Parameter.empty, ...)


def _value(parameter: inspect.Parameter) -> str:
    """Say in words what the value of an option must be; nothing for a flag."""
    kind, info = _type(parameter), _info(parameter)
    if kind is bool:
        return ""
    if info.metavar:
        return f"`{info.metavar}`"
    if get_origin(kind) is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(kind))
    bounds = [f"at least {info.min:g}"] if info.min is not None else []
    bounds += [f"at most {info.max:g}"] if info.max is not None else []
    return f"{_PLAIN.get(kind, 'a text')}{' of ' if bounds else ''}{' and '.join(bounds)}"


def _type(parameter: inspect.Parameter) -> Any:
    """Return the type of a parameter, without None."""
    kind = get_args(parameter.annotation)[0]
    if get_origin(kind) in (Union, UnionType):
        kind = next(option for option in get_args(kind) if option is not NoneType)
    return kind
