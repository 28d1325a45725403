"""Corpora in memory: rows that a program holds, written to the cache as JSON Lines under the hash of their content.

A recipe names the file like any other, so that resumed runs, bundles and caches work as they do with files. Rows are
recognised by what they offer, so that no library of tables is needed: lists of tuples, texts or dictionaries, a
dictionary of columns, frames of pandas or polars, and data sets of `datasets`.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final, SupportsIndex
from uuid import uuid4

from heedful.base.arguments import check_text
from heedful.base.errors import UserError, suggestion
from heedful.base.files import WRITING_FAULTS, machine_faults, user_faults
from heedful.config.data import Data
from heedful.config.task_rules import TaskRules
from heedful.data.cache import cache_folder

_LABEL: Final = "label"
_ANSWER: Final = "answer"
_TARGET: Final = "target"
_START: Final = "start"
_FOLDER: Final = "in_memory"  # in the cache
_SPOOLED: Final = re.compile(rf".*[/\\]{_FOLDER}[/\\]([0-9a-f]{{32}})\.jsonl")


@dataclass(frozen=True)
class RowForm:
    """The fields of a task's rows: those that each row must have, and those that all rows may have."""

    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()

    @classmethod
    def of(cls, rules: TaskRules) -> "RowForm":
        """Return the form of the rows that a task learns from."""
        return cls(rules.roles[0].needed, rules.roles[0].optional)

    @property
    def words(self) -> str:
        """The form in words, for messages."""
        names = ", ".join(f"`{name}`" for name in self.needed)
        return names + "".join(f" and optionally `{name}`" for name in self.optional)

    def fields_of(self, columns: Sequence[str], where: str) -> tuple[str, ...]:
        """Return which of the columns of a table are read; refuse one that lacks a column."""
        for name in self.needed:
            if name not in columns:
                raise UserError(
                    f"{where} has no column `{name}`, but must have {self.words}."
                    f"{suggestion(name, [str(column) for column in columns])}"
                )
        return tuple(name for name in (*self.needed, *self.optional) if name in columns)

    def fields_of_tuple(self, length: int, where: str) -> tuple[str, ...]:
        """Return the fields of a row without names, by its length: the label is last."""
        if length == len(self.needed):
            return self.needed
        if self.optional and length == len(self.needed) + len(self.optional):
            if _LABEL not in self.needed:
                return (*self.needed, *self.optional)
            return (self.needed[0], *self.optional, *self.needed[1:])
        raise UserError(f"{where} has {length} values, but must have {self.words}.")


def spool(data: object, rules: TaskRules, name: str) -> dict[str, object]:
    """Write rows to the cache, and return the corpus table that names them; `name` is their name in messages."""
    needed = {role for form in rules.roles for role in form.needed}
    if "tree" in needed:
        raise UserError(
            f"`{name}` is given in memory, but {rules.learner} learns from files: write one bracketed tree per line, "
            "and name the file by `trees` in the recipe."
        )
    if "caption" in needed:
        raise UserError(f"`{name}` is given in memory, but {rules.needs}.")
    if "image" in needed:
        raise UserError(
            f"`{name}` is given in memory, but {rules.learner} learns from files: name them in the recipe, such as a "
            "folder (`images`) or arrays (`npz`)."
        )
    folder = cache_folder() / _FOLDER
    with machine_faults(folder), user_faults(folder, WRITING_FAULTS):
        folder.mkdir(parents=True, exist_ok=True)
        staged = folder / f".{uuid4().hex}"
        try:
            digest, fields, variants = _write(staged, read_rows(data, rules, name, several=True))
            if not fields:
                raise UserError(f"`{name}` has no rows: give at least one.")
            path = staged.replace(folder.absolute() / f"{digest}.jsonl")
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
            variants = variants or isinstance(row.get(_TARGET), tuple)
            file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()[:32], fields, variants


def read_rows(data: object, rules: TaskRules, name: str, several: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the checked rows of a task's data in any form: texts by field, and labels as texts or lists of texts.

    Where every word has a label, texts may be lists of words too. With `several`, a target may be a list of variants;
    it is returned as a tuple.
    """
    for number, row in enumerate(_named_rows(data, RowForm.of(rules), f"`{name}`"), start=1):
        where = f"{name}, row {number:,}"
        yield {
            field: _variants(value, f"{where}: `{field}`")
            if several and field == _TARGET and isinstance(value, list | tuple)
            else _checked(field, value, f"{where}: `{field}`", rules.words)
            for field, value in row.items()
        }


def labels_of_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the labels of a checked row."""
    label = row[_LABEL]
    return tuple(label) if isinstance(label, list) else (label,)


def _named_rows(data: Any, form: RowForm, where: str) -> Iterator[dict[str, object]]:
    """Yield the rows of a table, or of an iterable of rows, as dictionaries."""
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise UserError(f"{where} is {shortened(data)}, but must be rows with {form.words}.")
    columns = getattr(data, "column_names", None) or getattr(data, "columns", None)
    if isinstance(data, Mapping):
        columns = list(data)
    if columns is None:
        yield from (_named(row, form, f"{where[1:-1]}, row {n:,}") for n, row in enumerate(data, start=1))
        return
    fields = form.fields_of(list(columns), where)
    names = _class_names(data)
    if hasattr(data, "column_names") and not isinstance(data, Mapping):  # a data set: rows are cheap, columns are not
        values: Iterable[Sequence[object]] = ([row[field] for field in fields] for row in data)
    else:
        values = zip(*(_column(data, field, where) for field in fields), strict=True)
    for row in values:
        found = dict(zip(fields, row, strict=True))
        label = found.get(_LABEL)
        yield {**found, _LABEL: names[label]} if names and isinstance(label, int) else found


def _column(data: Any, field: str, where: str) -> list[object]:
    column = list(data[field])
    first = list(data[next(iter(data))]) if isinstance(data, Mapping) else column
    if len(column) != len(first):
        raise UserError(
            f"{where} has columns of {len(first):,} and {len(column):,} rows, but all must be of one length."
        )
    return column


def _named(row: object, form: RowForm, where: str) -> dict[str, object]:
    if isinstance(row, str) and len(form.needed) == 1:
        return {form.needed[0]: row}
    if isinstance(row, Mapping):
        return {field: row[field] for field in form.fields_of(list(row), where)}
    if isinstance(row, Sequence) and not isinstance(row, str | bytes):
        return dict(zip(form.fields_of_tuple(len(row), where), row, strict=True))
    raise UserError(f"{where} is {shortened(row)}, but must be a tuple or a dictionary with {form.words}.")


def _class_names(data: Any) -> Sequence[str] | None:
    """Return the names of the classes of a data set that stores labels as numbers."""
    features = getattr(data, "features", None)
    return getattr(features[_LABEL], "names", None) if isinstance(features, Mapping) and _LABEL in features else None


def _checked(field: str, value: object, where: str, words: bool) -> object:
    if field == _ANSWER:
        return _answer(value, where)
    if field == _START:
        return _start(value, where)
    if words and isinstance(value, list | tuple):
        return [check_text(each, where) for each in value]
    if field != _LABEL or words:
        return check_text(value, where)
    if isinstance(value, list | tuple):
        return [_label(each, where) for each in value]
    return _label(value, where)


def _variants(value: Sequence[object], where: str) -> tuple[str, ...]:
    """Return the variants of a target, of which there must be one."""
    if not value:
        raise UserError(f"{where} is an empty list, but must have at least one text.")
    return tuple(check_text(each, where) for each in value)


def _answer(value: object, where: str) -> str | list[str] | None:
    """Return an answer, or a list of acceptable ones; None if there is none."""
    if isinstance(value, list | tuple):
        return [check_text(each, where) for each in value]
    return None if value is None else check_text(value, where)


def _start(value: object, where: str) -> int | None:
    """Return the position of an answer; None if it is not known."""
    if value is None or (isinstance(value, SupportsIndex) and not isinstance(value, bool)):
        return None if value is None else index(value)
    raise UserError(f"{where} is {shortened(value)}, but must be a whole number of characters.")


def _label(value: object, where: str) -> str:
    """Return the name of a class: a text, or a whole number as text."""
    if isinstance(value, SupportsIndex):
        return str(value)
    return check_text(value, where)
