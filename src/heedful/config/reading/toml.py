"""A writer of TOML, for `heedful config show`. The standard library has the reader."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
