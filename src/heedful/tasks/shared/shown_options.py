"""Keyword options of public methods: declared once in a TypedDict, checked by type checkers, and shown by `help()`."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """The meaning of an option, and the value it has where a call leaves it out."""

    meaning: str
    default: object = None


def options_of(table: type) -> Mapping[str, tuple[Any, Option]]:
    """Return the type and the meaning of every key of a TypedDict of annotated options, in order."""
    found = {}
    for name, hint in get_type_hints(table, include_extras=True).items():
        assert get_origin(hint) is Annotated, f"{table.__name__}.{name} has no meaning"
        kind, option = get_args(hint)
        found[name] = (kind, option)
    return found


def show_options(table: type) -> Callable[[Function], Function]:
    """Give a function with `**options: Unpack[table]` the signature and the docstring of one that names each option."""

    def shown(function: Function) -> Function:
        signature, options = inspect.signature(function), options_of(table)
        named = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=kind)
            for name, (kind, option) in options.items()
        ]
        lines = [f"    {name}: {option.meaning}" for name, (_, option) in options.items()]
        function.__signature__ = signature.replace(parameters=[*named, *added])  # type: ignore[attr-defined]
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Options:", *lines])
        return function

    return shown
