"""Checks of what Python callers pass: a wrong value is refused in one line that names it and says what it must be."""

import io
import math
import operator
import os
import warnings
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from reprlib import repr as shortened
from typing import SupportsIndex, TypeVar

from heedful.base.errors import UserError, counted, option

Item = TypeVar("Item")


def warn_of_old_name(old: str, new: str) -> None:
    """Warn that the next version will not have a name."""
    message = f"`{old}` is called `{new}` now; the next version will not have the old name"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def check_text(text: object, where: str) -> str:
    """Return a text; refuse anything else. `where` names it in messages."""
    if not isinstance(text, str):
        raise UserError(f"{where} is {shortened(text)}, but must be a text: {_way_out(text)}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{where} has half of a surrogate pair at character {error.start + 1:,}, which is not a character: decode "
            "the text as UTF-8, or remove it."
        ) from None
    return text


def check_texts(texts: object, name: str = "texts", first: int = 1) -> list[str]:
    """Return texts as a list; refuse one that is not a text, with its number, counted from `first`."""
    return [
        check_text(text, f"{name}, line {number:,}")
        for number, text in enumerate(check_several(texts, name), start=first)
    ]


def check_several(items: object, name: str, noun: str = "text") -> Iterable[object]:
    """Return a list or another iterable; refuse a single text, and what cannot be iterated over.

    `noun` is what an item is: where it is an image, a text is the path of one.
    """
    if isinstance(items, str):
        raise UserError(f"`{name}` is one {noun}, but must be a list of {noun}s: put it in brackets.")
    if isinstance(items, bytes | Mapping) or not isinstance(items, Iterable):
        one = "an image" if noun == "image" else f"a {noun}"
        raise UserError(f"`{name}` is {shortened(items)}, but must be {one} or a list of {noun}s.")
    return lines_of(items)


def lines_of(items: Iterable[Item]) -> Iterable[Item]:
    """Return items as they are, but those of an open text file without the ends of its lines."""
    if not isinstance(items, io.TextIOBase):
        return items
    return (line.removesuffix("\n").removesuffix("\r") for line in items)


def check_one_each(number: int, noun: str, found: int, other: str, hint: str = "") -> None:
    """Refuse two lists of different lengths: each item of the first, a `noun`, needs one of the second."""
    if number != found:
        raise UserError(f"{counted(number, noun)}, but {counted(found, other)}: each {noun} needs one{hint}.")


def check_whole(name: str, value: object, least: int | None = None) -> int:
    """Return a whole number; refuse anything else, and one that is less than `least`."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise UserError(f"{option(name)} is {shortened(value)}, but must be a whole number.")
    number = operator.index(value)
    if least is not None and number < least:
        raise UserError(f"{option(name)} is {number}, but must be {least} or more.")
    return number


def check_number(name: str, value: object) -> float:
    """Return a number; refuse anything else, and NaN."""
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value):
        raise UserError(f"{option(name)} is {shortened(value)}, but must be a number.")
    return float(value)


def check_flag(name: str, value: object) -> bool:
    """Return True or False; refuse anything else."""
    if not isinstance(value, bool):
        raise UserError(f"{option(name)} is {shortened(value)}, but must be True or False.")
    return value


def check_path(name: str, value: object) -> Path:
    """Return a path, also of an object that has one, such as a finished run; refuse anything else, and an empty one."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise UserError(f"`{name}` is {shortened(value)}, but must be a path.")
    path = os.fspath(value)
    if not isinstance(path, str):
        raise UserError(f"`{name}` is {shortened(value)}, but must be a path of text, not of bytes.")
    return Path(path)


def _way_out(value: object) -> str:
    if isinstance(value, bytes):
        return "decode it with `.decode()`"
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "leave it out, or give an empty one" if missing else "convert it with `str()`"
