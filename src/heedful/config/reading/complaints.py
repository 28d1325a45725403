"""Error messages of a recipe: one line per error, all at once, each with its origin and its dotted path."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from heedful.base.errors import nearest, suggestion
from heedful.config.corpora.containers import FORMS
from heedful.config.reading.draft import Draft, item_of
from heedful.config.reading.foreign_words import our_key
from heedful.config.reading.outline import (
    MARKS,
    Bounds,
    KeyPath,
    Place,
    kind_of,
    locate,
    mark_of,
    must_be,
    paths_of_key,
    sections,
)
from heedful.config.reading.toml import toml_value

_LONGEST_VALUE = 60
_SEVERAL = {"kind": "kinds", "family": "families"}


@dataclass(frozen=True)
class _Fault:
    """One of pydantic's errors, with its place in the schema."""

    type: str
    place: Place
    path: KeyPath  # as written in this recipe
    value: Any
    context: dict[str, Any]

    @property
    def table(self) -> KeyPath:
        return self.path[:-1]

    @property
    def key(self) -> str:
        return str(self.path[-1])

    @property
    def dotted(self) -> str:
        return ".".join(map(str, self.path))


def complaints(draft: Draft, error: ValidationError) -> list[str]:
    """Describe every error of a draft once, without those that only follow from another one."""
    faults = []
    for entry in error.errors(include_url=False):
        place = locate(entry["loc"])
        path = _as_written(place.path, draft)
        faults.append(_Fault(entry["type"], place, path, entry["input"], entry.get("ctx", {})))
    of_kind = [fault for fault in faults if _says_no_such_kind(fault)]
    unknown_kinds = {fault.path if fault.type == "union_tag_invalid" else fault.table for fault in of_kind}
    return list(dict.fromkeys(_line(draft, fault) for fault in faults if not _follows(fault, faults, unknown_kinds)))


def _as_written(path: KeyPath, draft: Draft) -> KeyPath:
    """Remove the 0 of a corpus that is written as one table, not as a list."""
    written: list[str | int] = []
    value: Any = draft.values
    for key in path:
        if isinstance(key, int) and not isinstance(value, list):
            continue
        written.append(key)
        value = item_of(value, key)
    return tuple(written)


# --- which errors are reported ------------------------------------------------------------------------------------


def _says_no_such_kind(fault: _Fault) -> bool:
    return fault.type == "union_tag_invalid" or (fault.type == "literal_error" and fault.key in MARKS)


def _follows(fault: _Fault, faults: Sequence[_Fault], unknown_kinds: set[KeyPath]) -> bool:
    """Whether an error only follows from another: a key of an unknown kind, one that is missing as it is misspelt."""
    if _says_no_such_kind(fault):
        return False
    if any(fault.path[: len(table)] == table for table in unknown_kinds):
        return True
    if fault.type == "literal_error" and any(fault.path == other.table for other in faults):
        return True  # a table is allowed here: the error is inside it
    misspelt = [other for other in faults if other.type == "extra_forbidden" and other.table == fault.table]
    meant = {nearest(other.key, _keys(other.place)) for other in misspelt}
    return fault.type == "missing" and bool(meant & {fault.key, *_forms(fault.place)})


# --- messages -----------------------------------------------------------------------------------------------------


def _line(draft: Draft, fault: _Fault) -> str:
    if fault.type == "extra_forbidden":
        chosen = mark_of(fault.place.holder)
        kind = f" of the {chosen} {kind_of(fault.place.holder)}" if chosen else ""
        return f"{draft.writer_of(fault.path)}: `{fault.dotted}` is not a key{kind}{_way_out(fault)}"
    if fault.type == "missing":
        return f"{draft.writer_of_table(fault.table)}: `{fault.dotted}` is missing: it must be {_needed(fault)}."
    if fault.type == "union_tag_invalid":
        mark = str(fault.context["discriminator"]).strip("'")
        kinds = str(fault.context["expected_tags"]).replace("'", "")
        writer = draft.writer_of((*fault.path, mark))
        return f"{writer}: `{fault.dotted}.{mark}` is {_shown(fault.value[mark])}, but must be one of: {kinds}."
    if fault.type == "value_error":  # of a validator of a whole table: its keys do not fit together
        message = str(fault.context["error"])
        table = f"in `{fault.dotted}`, " if fault.path else ""
        return f"{draft.writer_of_misfit(fault.path, message)}: {table}{message}."
    return f"{draft.writer_of(fault.path)}: `{fault.dotted}` is {_shown(fault.value)}, but must be {_needed(fault)}."


def _needed(fault: _Fault) -> str:
    members = sections(fault.place.annotation)
    if isinstance(fault.value, str) and len(members) > 1 and all(map(mark_of, members.values())):
        return f"{', '.join(toml_value(kind) for kind in members)} or a table"
    bounds: Bounds = "upper" if fault.type == "less_than_equal" else "usual"
    return must_be(fault.place.annotation, fault.place.metadata, bounds)


def _way_out(fault: _Fault) -> str:
    """End the line of an unknown key: the key that was meant, here, in another kind, or in another table."""
    keys = _keys(fault.place)
    if fault.key in _forms(fault.place):
        form = next(key for key in (*FORMS, "source", "text") if key in fault.place.holder.model_fields)
        return f": a corpus has one form, and `{form}` is set too. Leave one of them out."
    ours = our_key(fault.key)
    if ours and ours != fault.dotted:
        return f". Did you mean `{ours}`?"
    elsewhere = paths_of_key(fault.key)
    if nearest(fault.key, keys) and not elsewhere:
        return "." + suggestion(fault.key, keys)
    kinds = [kind for kind, sibling in fault.place.siblings.items() if fault.key in sibling.model_fields]
    mark = mark_of(fault.place.holder)
    if kinds and mark:
        return f", but of the {mark if len(kinds) == 1 else _SEVERAL[mark]} {', '.join(kinds)}."
    if elsewhere:
        return f". Did you mean {' or '.join(f'`{path}`' for path in elsewhere)}?"
    return "." + suggestion(fault.key, keys)


def _keys(place: Place) -> list[str]:
    return list(dict.fromkeys([*place.holder.model_fields, *_forms(place)]))


def _forms(place: Place) -> list[str]:
    """Return the keys that would give a corpus another form."""
    if len(place.siblings) < 2 or mark_of(place.holder):
        return []
    return [form for form, sibling in place.siblings.items() if form in sibling.model_fields]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    text = "null" if value is None else toml_value(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
