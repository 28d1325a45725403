"""Objects of JSON files: one per line, or in an array; and their fields, those of inner objects by their paths."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

_NEXT: Final = re.compile(r"[\s,\[]*(?=\{)")
_DEEPEST: Final = 3  # levels of inner objects that have paths


class ItemNumber(int):
    """The number of an object in an array that is on one line, where others have the number of their line."""


def place_words(number: int) -> str:
    """Return the place of a row in its file, for messages: "line 3", or "item 3" of an array on one line."""
    return f"{'item' if isinstance(number, ItemNumber) else 'line'} {number:,}"


def objects_of_lines(lines: Sequence[str], most: int) -> Iterator[dict[str, object]]:
    """Yield the objects of JSON lines, up to the first line that is not one."""
    for line in islice(filter(str.strip, lines), most):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(row, dict):
            return
        yield row


def objects_of_array(text: str) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the objects of a JSON array, which may be cut, each with the number of its line, or on one line its own."""
    decoder, place, line, item = json.JSONDecoder(), 0, 1, 0
    is_array = text.lstrip()[:1] == "["
    one_line = "\n" not in text.strip()
    while is_array:
        found = _NEXT.match(text, place)
        if found is None:
            return
        line += text.count("\n", place, found.end())
        try:
            row, end = decoder.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            return
        item += 1
        yield ItemNumber(item) if one_line else line, row
        line, place = line + text.count("\n", found.end(), end), end


def flatten(row: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """Yield the fields of an object; those of an object in it by their path, `review.text`."""
    for key, value in row.items():
        if isinstance(value, dict) and value and before.count(".") < _DEEPEST:
            yield from flatten(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def at_path(row: Mapping[str, object], path: str) -> tuple[object] | None:
    """Return the value of a field by its path, as the only member of a tuple; None where there is no such field."""
    if path in row:
        return (row[path],)
    for place, letter in enumerate(path):  # names of fields may have points too
        inner = row.get(path[:place]) if letter == "." else None
        if isinstance(inner, dict) and (found := at_path(inner, path[place + 1 :])) is not None:
            return found
    return None
