"""The first objects of a JSON file that was read only in part."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice


def objects_of_lines(lines: Sequence[str], most: int) -> Iterator[dict[str, object]]:
    """Yield the objects of JSON lines; nothing unless each of the first lines is one."""
    for line in islice(filter(str.strip, lines), most):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(row, dict):
            return
        yield row


def objects_of_array(text: str) -> Iterator[dict[str, object]]:
    """Yield the objects of the first list in a JSON file, which may be cut."""
    decoder, place = json.JSONDecoder(), text.find("[") + 1
    while place:
        found = re.compile(r"[\s,]*(?=\{)").match(text, place)
        if found is None:
            return
        try:
            row, place = decoder.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            return
        yield row


def flatten(row: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """Yield the fields of an object; those of an object in it by their path, `review.text`."""
    for key, value in row.items():
        if isinstance(value, dict) and value and before.count(".") < 3:
            yield from flatten(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
