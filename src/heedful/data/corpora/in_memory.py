"""Corpora in memory: rows that a program holds, written to the cache as JSON Lines under the hash of their content.

A recipe names the file like any other, so that resumed runs, bundles and caches work as they do with files. Rows are
recognised by what they offer, so that no library of tables is needed: lists of tuples, texts or dictionaries, a
dictionary of columns, frames of pandas or polars, and data sets of `datasets`.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from operator import index
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final, SupportsIndex
from uuid import uuid4

from heedful.base.arguments import check_text
from heedful.base.errors import WRITING_FAULTS, UserError, machine_faults, suggestion, user_faults
from heedful.base.files import sync
from heedful.config.corpora.roles import ROLES, Roles
from heedful.config.data import Data
from heedful.config.task_rules import TaskRules
from heedful.data.cache import cache_folder, create_folder

_FOLDER: Final = "in_memory"  # in the cache
_SPOOLED: Final = re.compile(rf".*[/\\]{_FOLDER}[/\\]([0-9a-f]{{32}})\.jsonl")


def spool(data: object, rules: TaskRules, name: str) -> dict[str, object]:
    """Write rows to the cache, and return the corpus table that names them; `name` is their name in messages."""
    needed = rules.roles[0].needed
    if "tree" in needed:
        raise UserError(
            f"`{name}` is given in memory, but {rules.learner} learns from files: write one bracketed tree per line, "
            "and name the file by `trees` in the recipe."
        )
    if "image" in needed and "label" not in needed:
        raise UserError(f"`{name}` is given in memory, but {rules.needs}.")
    if "image" in needed:
        raise UserError(
            f"`{name}` is given in memory, but {rules.learner} learns from files: name them in the recipe, such as a "
            "folder (`images`) or arrays (`npz`)."
        )
    folder = cache_folder() / _FOLDER
    with machine_faults(folder), user_faults(folder, WRITING_FAULTS):
        create_folder(folder)
        staged = folder / f".{uuid4().hex}"
        try:
            digest, fields, variants = _write(staged, read_rows(data, rules, name, several=True))
            if not fields:
                raise UserError(f"`{name}` has no rows: give at least one.")
            path = staged.replace(folder.absolute() / f"{digest}.jsonl")
            sync(folder)
        finally:
            staged.unlink(missing_ok=True)
    table: dict[str, object] = {"name": name, "jsonl": str(path), **{field: field for field in sorted(fields)}}
    return {**table, "variants": True} if variants else table


def hash_of_rows(path: object) -> str | None:
    """Return the hash of the rows in a file that `spool` wrote, wherever its cache was; None for any other value."""
    found = _SPOOLED.fullmatch(path) if isinstance(path, str) else None
    return found and found[1]


def refuse_lost_rows(data: Data) -> None:
    """Refuse corpora that were once given in memory and are no longer in the cache."""
    for split in ("train", "valid"):
        for corpus in getattr(data, split):
            path = getattr(corpus, "jsonl", "")
            if hash_of_rows(path) and not Path(path).exists():
                raise UserError(
                    f"`data.{split}` was given in memory, and its copy in the cache, {path}, is gone: pass the same "
                    f"rows again, as `{split}=...`."
                )


def _write(path: Path, rows: Iterable[Mapping[str, object]]) -> tuple[str, set[str], bool]:
    """Write rows to a new file; return the hash of its content, the fields, and whether a target has variants."""
    digest, fields, variants = hashlib.sha256(), set[str](), False
    with path.open("xb") as file:
        for row in rows:
            line = json.dumps(row, ensure_ascii=False, sort_keys=True).encode() + b"\n"
            digest.update(line)
            fields.update(row)
            variants = variants or isinstance(row.get("target"), tuple)
            file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()[:32], fields, variants


def read_rows(data: object, rules: TaskRules, name: str, several: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the checked rows of a task's data in any form: texts by field, and labels as texts or lists of texts.

    Where every word has a label, texts may be lists of words too. With `several`, a target may be a list of variants;
    it is returned as a tuple.
    """
    for number, row in enumerate(_named_rows(data, rules.roles[0], f"`{name}`"), start=1):
        yield {
            role: _checked(role, value, f"{name}, row {number:,}: `{role}`", rules.words, several)
            for role, value in row.items()
        }


def labels_of_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the labels of a checked row; none where it has a number instead."""
    label = row.get("label", [])
    return tuple(label) if isinstance(label, list) else (label,)


def _named_rows(data: Any, form: Roles, where: str) -> Iterator[dict[str, object]]:
    """Yield the rows of a table, or of an iterable of rows, as dictionaries."""
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise UserError(f"{where} is {shortened(data)}, but must be rows with {_in_words(form)}.")
    columns = getattr(data, "column_names", None) or getattr(data, "columns", None)
    if isinstance(data, Mapping):
        columns = list(data)
    if columns is None:
        yield from (_named(row, form, f"{where[1:-1]}, row {n:,}") for n, row in enumerate(data, start=1))
        return
    roles = _roles_among(list(columns), form, where)
    if hasattr(data, "column_names") and not isinstance(data, Mapping):  # a data set: rows are cheap, columns are not
        values: Iterable[Sequence[object]] = ([row[role] for role in roles] for row in data)
    else:
        table: Any = data
        lists = [list(table[role]) for role in roles]
        first = len(list(table[next(iter(table))])) if isinstance(data, Mapping) else len(lists[0])
        other = next((len(each) for each in lists if len(each) != first), None)
        if other is not None:
            raise UserError(f"{where} has columns of {first:,} and {other:,} rows, but all must be of one length.")
        values = zip(*lists, strict=True)
    features = getattr(data, "features", None)  # of a data set that stores labels as numbers
    names = getattr(features["label"], "names", None) if isinstance(features, Mapping) and "label" in features else None
    for row in values:
        found = dict(zip(roles, row, strict=True))
        label = found.get("label")
        yield {**found, "label": names[label]} if names and isinstance(label, int) else found


def _named(row: object, form: Roles, where: str) -> dict[str, object]:
    """Return a row by its roles; a tuple has them in the order in which tables declare them, the label last."""
    if isinstance(row, str) and len(form.needed) == 1:
        return {form.needed[0]: row}
    if isinstance(row, Mapping):
        return {role: row[role] for role in _roles_among(list(row), form, where)}
    if not isinstance(row, Sequence) or isinstance(row, str | bytes):
        raise UserError(f"{where} is {shortened(row)}, but must be a tuple or a dictionary with {_in_words(form)}.")
    if len(row) not in (len(form.needed), len(form.read)):
        raise UserError(f"{where} has {len(row)} values, but must have {_in_words(form)}.")
    roles = form.needed if len(row) == len(form.needed) else sorted(form.read, key=ROLES.index)
    return dict(zip(roles, row, strict=True))


def _roles_among(columns: Sequence[str], form: Roles, where: str) -> list[str]:
    """Return the roles that are read from a table's columns; refuse one that lacks a column."""
    for name in form.needed:
        if name not in columns:
            raise UserError(
                f"{where} has no column `{name}`, but must have {_in_words(form)}."
                f"{suggestion(name, [str(column) for column in columns])}"
            )
    return [role for role in form.read if role in columns]


def _in_words(form: Roles) -> str:
    return ", ".join(f"`{role}`" for role in form.needed) + "".join(
        f" and optionally `{role}`" for role in form.optional
    )


def _checked(role: str, value: Any, where: str, words: bool, several: bool) -> object:
    """Return the value of a role, if it is of the kind that a JSON field of the role may have."""
    listed = isinstance(value, list | tuple)
    match role:
        case "target" if several and listed:
            if not value:
                raise UserError(f"{where} is an empty list, but must have at least one text.")
            return tuple(check_text(each, where) for each in value)
        case "answer":
            if listed:
                return [check_text(each, where) for each in value]
            return None if value is None else check_text(value, where)
        case "start":
            if value is None or (isinstance(value, SupportsIndex) and not isinstance(value, bool)):
                return None if value is None else index(value)
            raise UserError(f"{where} is {shortened(value)}, but must be a whole number of characters.")
        case "number":
            if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
                way_out = ": convert it with `float()`" if isinstance(value, str) else ""
                raise UserError(f"{where} is {shortened(value)}, but must be a finite number{way_out}.")
            return float(value)
        case "label" if not words:
            return [_label(each, where) for each in value] if listed else _label(value, where)
        case _:
            return [check_text(each, where) for each in value] if words and listed else check_text(value, where)


def _label(value: object, where: str) -> str:
    """Return the name of a class: a text, or a whole number as text."""
    return str(value) if isinstance(value, SupportsIndex) else check_text(value, where)
