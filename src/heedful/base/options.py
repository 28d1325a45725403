"""Options of a call: declared once in a table, from which checks, completion, `help()` and the command line derive.

A table is a TypedDict or a dataclass whose keys are annotated: `beam: Annotated[int | None, Option("Beam size.")]`.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from heedful.base.arguments import check_flag, check_number, check_text, check_whole
from heedful.base.errors import UserError, option, suggestion

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """What an option means, the value it has where a call leaves it out, and which values it takes.

    The first line of the meaning is the help of the command line; what follows is about calls in Python. Numbers have
    bounds, `must_be` has words for them where they mean something. A value that is neither a number, a flag nor one of
    several names is checked by `reader`.
    """

    meaning: str
    default: object = None
    least: float | None = None
    above: float | None = None
    most: float | None = None
    must_be: str = ""
    reader: Callable[[str, object], Any] | None = None
    of_recipe: bool = False  # whether the default is a recipe's
    kind: Any = None  # type of the values, without None: that of the key

    @property
    def in_python(self) -> str:
        """The meaning in `help()`, where the signature has the default if it is not a recipe's."""
        meaning = self.meaning.replace("\n", " ")
        return f"{meaning.removesuffix('.')} (default: the recipe's)." if self.of_recipe else meaning

    def check(self, name: str, value: object) -> Any:
        """Return a value of the option; refuse anything else."""
        if self.reader is not None:
            return self.reader(name, value)
        if self.kind is bool:
            return check_flag(name, value)
        if get_origin(self.kind) is Literal:
            if check_text(value, f"`{name}`") not in get_args(self.kind):
                names = ", ".join(get_args(self.kind))
                raise UserError(f"{option(name)} is `{value}`, but must be one of {names}.")
            return value
        number = check_whole(name, value) if self.kind is int else check_number(name, value)
        wrong = self._wrong_bound(number)
        if wrong:
            raise UserError(f"{option(name)} is {number:,}, but must be {self.must_be or wrong}.")
        return number

    def _wrong_bound(self, number: float) -> str:
        """Return in words the bound that a number passes; an empty text if it passes none."""
        if self.least is not None and number < self.least:
            return f"at least {self.least:,}"
        if self.above is not None and number <= self.above:
            return f"more than {self.above:,}"
        if self.most is not None and number > self.most:
            return f"at most {self.most:,}"
        return "finite" if number == math.inf else ""


@cache
def options_of(table: type) -> Mapping[str, Option]:
    """Return the options that a table declares, in order."""
    found = {}
    for name, hint in get_type_hints(table, include_extras=True).items():
        assert get_origin(hint) is Annotated, f"{table.__name__}.{name} has no meaning"
        annotation, declared = get_args(hint)
        kinds = [kind for kind in get_args(annotation) or [annotation] if kind is not NoneType]
        kind = annotation if get_origin(annotation) is Literal or len(kinds) > 1 else kinds[0]
        default = getattr(table, name) if is_dataclass(table) else declared.default
        found[name] = replace(declared, kind=kind, default=default)
    return found


def complete(given: Mapping[str, object], table: type, recipe: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Return all options of a table: those of a call, which are checked, and the recipe's or the default ones."""
    declared = options_of(table)
    chosen: dict[str, Any] = {**{name: each.default for name, each in declared.items()}, **(recipe or {})}
    for name, value in given.items():
        if name not in declared:
            raise TypeError(f"`{name}` is not an option.{suggestion(name, list(declared))}")
        if value is not None:
            chosen[name] = declared[name].check(name, value)
    return chosen


def show_options(table: type) -> Callable[[Function], Function]:
    """Give a function with `**options: Unpack[table]` the signature and the docstring of one that names each option."""

    def shown(function: Function) -> Function:
        signature, options = inspect.signature(function), options_of(table)
        named = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        types = get_type_hints(table)
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=types[name])
            for name, each in options.items()
        ]
        lines = [f"    {name}: {each.in_python}" for name, each in options.items()]
        function.__signature__ = signature.replace(parameters=[*named, *added])  # type: ignore[attr-defined]
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Options:", *lines])
        return function

    return shown
