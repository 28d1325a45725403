"""Rows of files that hold more than one text a line: JSON objects and their fields, checked."""

import json
from collections.abc import Mapping

from heedful.base.errors import UserError, suggestion


def json_object(line: str, where: str) -> dict[str, object]:
    """Return the JSON object of a line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON: {error}.") from error
    if not isinstance(row, dict):
        raise UserError(f"{where} is {json_kind(row)}, but must be an object with fields.")
    return row


def text_field(row: Mapping[str, object], field: str, where: str) -> str:
    """Return a text field of a row."""
    text = field_of(row, field, where)
    if not isinstance(text, str):
        raise UserError(f"{where}: field `{field}` is {json_kind(text)}, but must be text.")
    return checked_text(text, field, where)


def field_of(row: Mapping[str, object], field: str, where: str) -> object:
    """Return the value of a row's field."""
    if field not in row:
        raise UserError(f"{where} has no field `{field}`.{suggestion(field, list(row))}")
    return row[field]


def checked_text(text: str, field: str, where: str) -> str:
    """Return a text that UTF-8 can hold, or refuse it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{where}: field `{field}` holds half of a surrogate pair, which is not a character."
        ) from error
    return text


def json_kind(value: object) -> str:
    """Return the JSON type of a value, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
