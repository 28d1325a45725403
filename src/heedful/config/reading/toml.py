"""A writer of TOML, for `heedful config show`. The standard library has the reader."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from heedful.base import files
from heedful.base.errors import UserError
from heedful.config.reading.outline import MARKS
from heedful.config.section import Section

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_document(values: Mapping[str, Any]) -> str:
    """Write nested values as a document: tables under headings, without None."""
    return "\n\n".join(_table(values, "")) + "\n"


def toml_value(value: Any) -> str:
    """Write one value on one line; tables become inline tables."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(map(_escaped, value))}"'
    if isinstance(value, Mapping):
        inside = ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items() if item is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value) if isinstance(value, int | float) else str(value)


def toml_item(value: Any) -> str:
    """Write the value of a key; a list of several tables gets one line per table."""
    if isinstance(value, list | tuple) and len(value) > 1 and isinstance(value[0], Mapping):
        return "\n".join(["[", *(f"  {toml_value(item)}," for item in value), "]"])
    if isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], Mapping):
        return toml_value(value[0])
    return toml_value(value)


def toml_key(key: str) -> str:
    """Write a key; one that is not only letters, digits, `-` and `_` is quoted."""
    return key if _BARE.fullmatch(key) else toml_value(key)


def shown(value: Any) -> str:
    """Format a value for a message, as in a recipe; None, which TOML does not have, is "nothing"."""
    plain = value.model_dump() if isinstance(value, Section) else value
    return "nothing" if plain is None else toml_value(plain)


def _table(values: Mapping[str, Any], name: str) -> list[str]:
    """Return the blocks of a table: its plain keys under one heading, then each table inside it."""
    plain = {key: value for key, value in values.items() if value is not None and not isinstance(value, Mapping)}
    lines = [f"{toml_key(key)} = {toml_item(plain[key])}" for key in sorted(plain, key=lambda key: key not in MARKS)]
    heading = [f"[{name}]"] if name else []
    blocks = ["\n".join([*heading, *lines])] if lines or name else []
    for key, value in values.items():
        if isinstance(value, Mapping):
            blocks += _table(value, f"{name}.{toml_key(key)}" if name else toml_key(key))
    return blocks


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\u{ord(character):04x}" if ord(character) < 0x20 or ord(character) == 0x7F else character


MOST_LEVELS: Final = 8  # of nested tables; no key of a recipe is deeper than 5

_PLAINER: Final = (  # messages of tomllib, and the same in plainer words
    (r"Cannot overwrite a value", "a key is set twice"),
    (r"Duplicate inline table key (.+)", r"the key \1 is set twice in one table"),
    (r"Cannot declare (\(.+\)) twice", r"the table [\1] is declared twice: put all its keys under one heading"),
    (
        r"Cannot (?:mutate immutable|redefine) namespace (\(.+\))",
        r"the table [\1] is written in two ways: put all its keys in one place, in braces or under a heading",
    ),
    (r"Invalid value", "a value is expected here; a text needs quotes, true and false are lower-case"),
)
_YAML = re.compile(r"(---|- |[\w.-]+:(\s|$))")


def read_recipe_file(path: Path) -> dict[str, Any]:
    """Read the values of a TOML file."""
    data = files.read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: byte {data[error.start]:#04x} is not UTF-8: save it as UTF-8.") from None
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise UserError(_too_deep(path)) from None
    except ValueError as error:
        raise UserError(_other_language(path, text) or _syntax_error(path, str(error))) from None
    level: list[Any] = [values]
    for _ in range(MOST_LEVELS):  # what reads nested tables calls itself for each level
        level = [
            item
            for holder in level
            for item in (holder.values() if isinstance(holder, Mapping) else holder)
            if isinstance(item, Mapping | list)
        ]
    if level:
        raise UserError(_too_deep(path))
    return values


def _syntax_error(path: Path, message: str) -> str:
    """Move the position in tomllib's message from its end to its start."""
    reason, found, place = message.rpartition(" (at ")
    where = f"{path}, {place.removesuffix(')')}" if found else str(path)
    reason = reason if found else message
    for pattern, plain in _PLAINER if found else ():
        if matched := re.fullmatch(pattern, reason):
            reason = re.sub(r"\[\((.+?),?\)\]", _dotted, matched.expand(plain))
            break
    return f"{where}: this is not TOML: {reason[:1].lower()}{reason[1:]}."


def _dotted(keys: re.Match[str]) -> str:
    """Write the keys of a table, a tuple in tomllib's messages, as its heading: [train.optimizer]."""
    return f"[{'.'.join(key.strip().strip(chr(39)) for key in keys[1].split(','))}]"


def _other_language(path: Path, text: str) -> str | None:
    """Recognise a file of another language, which people who come from other toolkits write."""
    said = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    first = said[0] if said else ""
    if path.suffix.lower() == ".json" or first.lstrip().startswith("{"):
        return (
            f'{path}: this is JSON, but a recipe is TOML: {{"train": {{"steps": 9}}}} is written [train] and steps = 9.'
        )
    if path.suffix.lower() in (".yaml", ".yml") or _YAML.match(first):
        return f"{path}: this is YAML, but a recipe is TOML: `train:` and `steps: 9` are written [train] and steps = 9."
    return None


def _too_deep(path: Path) -> str:
    return f"{path}: tables or lists are nested more than {MOST_LEVELS} levels deep, which no key of a recipe is."
