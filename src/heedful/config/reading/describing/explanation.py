"""`heedful config explain`: a key or a table of a recipe in words."""

from collections.abc import Sequence
from textwrap import wrap

from heedful.base.errors import UserError, nearest
from heedful.config.reading.describing.entries import (
    EXTENDS,
    KeyEntry,
    all_entries,
    entries_of,
    kind_label,
    table_meaning,
)
from heedful.config.reading.foreign_words import our_key
from heedful.config.reading.outline import MARKS, has_plain_form, paths_of_key
from heedful.config.tasks import TASKS

_WIDTH = 100


def explain(path: str) -> str:
    """Explain a key, or list the keys of a table."""
    if path == "extends":
        return f'extends\n\n{EXTENDS}\n\n  example   extends = "transformer-base-wmt14"\n'
    entries = entries_of(path)
    if not entries:
        raise UserError(_unknown(path))
    alike: dict[tuple[str, str, str], list[KeyEntry]] = {}  # entries that differ in their kind of table only
    for entry in entries:
        alike.setdefault((entry.value, entry.default_in_words, entry.meaning), []).append(entry)
    return f"{entries[0].path}\n\n" + "\n".join(dict.fromkeys(map(_part, alike.values())))


def described(path: str | None) -> list[dict[str, object]]:
    """Return a key in all its kinds, or all keys, and the keys below a table, as JSON values."""
    if path == "extends":
        return [{"path": path, "meaning": EXTENDS}]
    chosen = [one for one in all_entries() if path is None or one.path == path or one.path.startswith(f"{path}.")]
    return [
        {
            "path": one.path,
            **({"of": list(one.within)} if one.within else {}),
            "value": one.value,
            "default": one.default_in_words,
            "meaning": one.meaning,
            "tasks": list(one.tasks),
        }
        for one in chosen
    ]


def list_tables() -> str:
    """List the tables of a recipe, with what each is for."""
    brief = {entry.path: entry.brief for entry in all_entries() if entry.tables or "." not in entry.path}
    width = max(map(len, brief))
    lines = [f"{path:{width}}  {meaning}" for path, meaning in {"extends": EXTENDS, **brief}.items()]
    return "\n".join([*lines, "", "`heedful config explain TABLE` lists the keys of a table.", ""])


def _part(same: Sequence[KeyEntry]) -> str:
    entry = same[0]
    if not entry.tables:
        return _key(same)
    tables = "\n".join(_tables(entry))
    return f"{_key(same)}\n{tables}" if has_plain_form(entry.field.annotation) else f"{entry.brief}\n\n{tables}"


def _key(entries: Sequence[KeyEntry]) -> str:
    """Explain a key of one kind of table, or of several in which it is the same."""
    first = entries[0]
    chosen = dict.fromkeys(" and ".join(entry.within) for entry in entries if entry.within)
    rows = [
        *(("" if number else "of", kind) for number, kind in enumerate(chosen)),
        ("value", first.value),
        ("default", first.default_in_words),
        ("tasks", tasks_in_words([task for task in TASKS if any(task in entry.tasks for entry in entries)])),
    ]
    lines = [line for name, text in rows for line in _row(name, text)]
    example = [f"{'example' if not number else '':10}{line}" for number, line in enumerate(first.example_table)]
    paragraphs = [line for paragraph in first.meaning.split("\n") for line in wrap(paragraph, _WIDTH)]
    return "\n".join([*paragraphs, "", *(f"  {line}" for line in [*lines, *example]), ""])


def _tables(entry: KeyEntry) -> list[str]:
    """List the keys of a table, kind by kind."""
    blocks: list[str] = []
    for table in entry.tables.values():
        inside = [KeyEntry(f"{entry.path}.{key}", table, (), entry.tasks) for key in table.model_fields]
        heading = f"  {kind_label(table)}: " if kind_label(table) else "  "
        rows = [(e.key, e.default_in_words, e.brief) for e in inside if e.key not in MARKS]
        widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
        shown = [f"    {key:{widths[0]}}  {default:{widths[1]}}  {brief}" for key, default, brief in rows]
        blocks += [f"{heading}{table_meaning(table)}", *shown, ""]
    return blocks


def tasks_in_words(tasks: Sequence[str]) -> str:
    """Return the names of tasks, or "all"."""
    return "all" if set(tasks) == set(TASKS) else ", ".join(tasks) or "none"


def _row(name: str, text: str) -> list[str]:
    first, *rest = wrap(text, _WIDTH - 10) or [""]
    return [f"{name:10}{first}", *(f"{'':10}{line}" for line in rest)]


def _unknown(path: str) -> str:
    *_, key = path.split(".")
    known = list(dict.fromkeys(entry.path for entry in all_entries()))
    ours = our_key(key)
    meant = [ours] if ours else paths_of_key(key) or [near for near in [nearest(path, known)] if near]
    way_out = (
        f"did you mean {' or '.join(f'`{each}`' for each in meant)}?"
        if meant
        else ("`heedful config explain` lists the tables.")
    )
    return f"`{path}` is not a key of a recipe: {way_out}"
