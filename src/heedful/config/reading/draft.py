"""A recipe before it is checked: the values of a file, of the file it extends and of `--set`, and their origins."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from os import PathLike, fspath
from typing import Any

from heedful.base.errors import UserError, by_caller
from heedful.config.corpora.containers import FORMS
from heedful.config.corpora.old_names import with_current_names
from heedful.config.reading.outline import MARKS, KeyPath, default_kind, is_list, locate, mark_of, sections
from heedful.config.reading.toml import MOST_LEVELS
from heedful.config.recipe import Recipe
from heedful.config.section import Section

Table = Mapping[str, Any]
Overrides = Sequence[str] | Mapping[str, Any]  # "a.b=c", or values by their dotted keys

_LENGTHS = ("steps", "epochs")  # a run has one of them
_LONGEST_LABEL = 60
_SIDES = ("source", "target")  # files by name, columns by number, or fields of a jsonl corpus by name


@dataclass(frozen=True)
class Override:
    """One `--set a.b=c` of the command line, or one override of a caller in Python."""

    path: tuple[str, ...]
    value: Any
    label: str

    @property
    def rank(self) -> int:
        """Order of application: keys that choose the kind of a table come before keys that belong to one kind."""
        return 0 if self.path[-1] in (*MARKS, *FORMS) else 1 if self.path[-1] in _SIDES else 2

    @property
    def chooses(self) -> bool:
        """Whether it can change the kind of a table."""
        return self.rank < 2


@dataclass(frozen=True)
class Draft:
    """Unchecked values, with the files (the recipe first, then its base) and overrides that they come from."""

    values: Table
    files: Sequence[tuple[str, Table]]
    overrides: Sequence[Override] = ()

    def writer_of(self, path: KeyPath) -> str:
        """Return the origin of the value at a path: an override, the recipe or its base."""
        for override in reversed(self.overrides):
            if _begins(path, override.path):
                return override.label
        for name, values in self.files:
            if reduce(item_of, path, values) is not None:
                return name
        inside = [override.label for override in self.overrides if _begins(override.path, path)]
        return inside[-1] if inside else self.files[0][0]

    def writer_of_table(self, path: KeyPath) -> str:
        """Return the origin of a table's kind, which decides its keys: an override, or the origin of the table."""
        kinds = [override for override in self.overrides if override.chooses and _same(override.path[:-1], path)]
        return kinds[-1].label if kinds else self.writer_of(path)

    def writer_of_misfit(self, path: KeyPath, message: str) -> str:
        """Return the origin of keys that do not fit together: the last override that the message names, or a file."""
        inside = [override for override in self.overrides if _begins(override.path, path)]
        named = [each for each in inside if f"`{'.'.join(each.path[len(path) :])}`" in message]
        return named[-1].label if named else self.writer_of(path)


def draft_of(label: str, values: Table, base: tuple[str, Table] | None = None) -> Draft:
    """Lay a recipe's values over those of the file it extends."""
    values, base = with_current_names(values), base and (base[0], with_current_names(base[1]))
    files = [(label, values), *([base] if base else [])]
    merged = overlaid(with_kinds(base[1]), with_tables(values)) if base else values
    return Draft(with_kinds(merged), files)


def overlaid(base: Table, new: Table) -> dict[str, Any]:
    """Merge tables key by key; a table of another kind, or a corpus of another form, replaces the whole one."""
    if _mark(new) is None:
        names_files = any(isinstance(new.get(side), str) for side in _SIDES)
        another_kind = names_files and _mark(base) in ("tsv", "builtin")
    else:
        another_kind = _mark(new) != _mark(base)
    if another_kind:
        return dict(new)
    base = _without_other_length(base, new)
    both = {key: overlaid(base[key], new[key]) for key in base if _is_table(base[key]) and _is_table(new.get(key))}
    return {**base, **new, **both}


def with_kinds(values: Table, section: type[Section] = Recipe) -> dict[str, Any]:
    """Write the default kind into every table that leaves it out."""
    filled, fields = with_tables(values, section), section.model_fields
    for key in [key for key in fields if _is_table(filled.get(key))]:
        members = sections(fields[key].annotation)
        if not members:
            continue
        kind = default_kind(members)
        if kind and not filled[key] and not fields[key].is_required():
            del filled[key]  # an empty table says nothing: what follows the data may decide its kind
            continue
        mark = mark_of(next(iter(members.values())))
        table = {mark: kind, **filled[key]} if mark and kind else filled[key]
        member = members.get(str(table.get(mark))) if mark else next(iter(members.values()))
        filled[key] = with_kinds(table, member) if member else table
    return filled


def with_tables(values: Table, section: type[Section] = Recipe) -> dict[str, Any]:
    """Replace the name of a kind, where a table is expected, by a table of that kind: `optimizer = "adamw"`."""
    filled, fields = dict(values), section.model_fields
    for key in [key for key in values if key in fields]:
        members, value = sections(fields[key].annotation), values[key]
        if isinstance(value, str) and value in members:
            filled[key] = {str(mark_of(members[value])): value}
        elif _is_table(value):
            for member in members.values():
                filled[key] = with_tables(filled[key], member)
    return filled


def plain_values(values: Table) -> dict[str, Any]:
    """Return the values of a dictionary that a program wrote as those of a TOML file: paths are texts, tuples lists."""
    return {str(key): plain(value) for key, value in values.items()}


def plain(value: Any) -> Any:
    """Return one such value."""
    match value:
        case Mapping():
            return plain_values(value)
        case list() | tuple():
            return [plain(item) for item in value]
        case Section():
            return value.model_dump(mode="json")
        case PathLike():
            return fspath(value)
        case _:
            return value


# --- overrides ----------------------------------------------------------------------------------------------------


def override_of(text: str) -> Override:
    """Parse `a.b=c`; a value that is not TOML is a plain text."""
    label = by_caller(f"--set {text}", f'override "{text}"')
    keys, sign, value = text.partition("=")
    path = tuple(key.strip() for key in keys.split("."))
    if not sign or not all(path):
        example = by_caller("--set model.layers=3", '"model.layers=3"')
        raise UserError(f"{label}: must be a dotted key and a value, as in {example}.")
    if path == ("extends",):
        raise UserError(f"{label}: `extends` must be in the recipe's file.")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return Override(path, value.strip(), label)
    return Override(path, parsed["value"] if parsed.keys() == {"value"} else value, label)


def overrides_of(texts: Overrides) -> tuple[list[Override], list[str]]:
    """Parse several overrides; return them, and a line for each that cannot be parsed."""
    if isinstance(texts, str):
        raise UserError(f'`overrides` is "{texts}", but must be a list such as ["train.steps=100"], or a dictionary.')
    if isinstance(texts, Mapping):
        paths = {key: tuple(str(key).split(".")) for key in texts}
        return [Override(paths[key], plain(value), f'override "{key}"') for key, value in texts.items()], []
    overrides, lines = [], []
    for text in texts:
        try:
            overrides.append(override_of(text))
        except UserError as error:
            lines.append(str(error))
    return overrides, lines


def with_overrides(draft: Draft, overrides: Sequence[Override]) -> tuple[Draft, list[str]]:
    """Apply overrides in the order of their ranks; return the draft, and a line for each that cannot be applied."""
    values, applied, lines = draft.values, [], []
    for override in sorted(overrides, key=lambda override: override.rank):
        label, depth = override.label, len(override.path)
        if depth > MOST_LEVELS:
            short = label if len(label) <= _LONGEST_LABEL else f"{label[:_LONGEST_LABEL]}…"
            lines.append(f"{short}: a key has at most {MOST_LEVELS} parts, but this one has {depth:,}.")
            continue
        try:
            values = with_tables(_assigned(values, override, 0))
            applied.append(override)
        except UserError as error:
            lines.append(str(error))
    return replace(draft, values=with_kinds(values), overrides=applied), lines


def _assigned(holder: Any, override: Override, depth: int) -> Any:
    """Return a copy of a table or list in which the override's key has its value."""
    key, here = override.path[depth], ".".join(override.path[:depth])
    if _is_table(holder) and key.isdecimal() and is_list(locate(override.path[:depth]).annotation):
        holder = [holder]  # a single corpus may be written without a list
    last = depth + 1 == len(override.path)
    if isinstance(holder, list):
        if not key.isdecimal():
            rest = ".".join(override.path[depth:])
            raise UserError(f"{override.label}: `{here}` is a list: name one of its items, as in {here}.0.{rest}.")
        index = int(key)
        if index >= len(holder):
            raise UserError(f"{override.label}: `{here}` has no item {key}: it has {len(holder)}, counted from 0.")
        item = override.value if last else _assigned(holder[index], override, depth + 1)
        return [*holder[:index], item, *holder[index + 1 :]]
    if not _is_table(holder):
        raise UserError(f"{override.label}: `{here}` is a plain value and has no key `{key}`.")
    if last:
        new = {key: override.value}
        return overlaid(holder, new) if override.chooses else {**_without_other_length(holder, new), **new}
    return {**holder, key: _assigned(holder.get(key, {}), override, depth + 1)}


# --- tables and paths ---------------------------------------------------------------------------------------------


def item_of(holder: Any, key: str | int) -> Any:
    """Return the value of a table or list at a key; None where there is none."""
    if isinstance(holder, list):
        return holder[key] if isinstance(key, int) and key < len(holder) else None
    return holder.get(key) if _is_table(holder) else None


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _without_other_length(base: Table, new: Table) -> Table:
    """Remove `steps` from a table over which `epochs` is laid, and the other way round."""
    given = [key for key in _LENGTHS if key in new]
    return {key: value for key, value in base.items() if key not in _LENGTHS or key in given} if given else base


def _mark(table: Table) -> str | None:
    """Return the kind that a table sets; None where it takes the kind of the table below it."""
    for key in MARKS:
        if key in table:
            return str(table[key])
    return next((form for form in FORMS if isinstance(table.get(form), str)), None)  # [data.images] is not a corpus


def _same(left: KeyPath, right: KeyPath) -> bool:
    return tuple(map(str, left)) == tuple(map(str, right))


def _begins(path: KeyPath, beginning: KeyPath) -> bool:
    return _same(path[: len(beginning)], beginning)
