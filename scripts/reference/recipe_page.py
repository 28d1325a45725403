"""docs/reference/recipe.md: every key of a recipe, from the schema."""

from collections.abc import Iterator, Sequence

from heedful.config.reading.describing.entries import (
    EXTENDS,
    KeyEntry,
    all_entries,
    chosen_by,
    kind_label,
    table_meaning,
)
from heedful.config.reading.describing.explanation import tasks_in_words
from heedful.config.reading.outline import MARKS, is_list, kind_of
from heedful.config.reading.toml import toml_value
from heedful.config.section import Section
from heedful.config.tasks import TASKS

_INTRODUCTION = """\
# Recipe reference

Every key of a recipe: what it must be, its default, and what it means. In a terminal, `heedful config explain KEY` says
the same of one key, and `heedful config show RECIPE` shows all keys of one recipe.

- **Numbers**: whole numbers may be written as `100_000` or `1e5`.
- **Kinds**: a table with a `kind` or a `family` has other keys for each of them. `optimizer = "adamw"` is short for
  `optimizer = { kind = "adamw" }`.
- **On the command line**: `--set train.steps=5000` sets a key for one command; `--set data.train.0.lines=1-100` sets a
  key of the first of several corpora.
- **In an editor**: `heedful config schema > recipe.schema.json` writes a JSON Schema. Editors that know TOML use it to
  complete and check keys, for example after a first line `#:schema ./recipe.schema.json`.
- **Tasks**: a key applies to all tasks of its table unless its row names some.
"""


def recipe_page() -> str:
    """Return the page."""
    entries = all_entries()
    blocks = [_INTRODUCTION, "## Top of the file", _top(entries)]
    seen: dict[type[Section], str] = {}
    for path, level in _table_paths(entries):
        blocks += _table(path, level, entries, seen)
    return "\n\n".join(block.strip("\n") for block in blocks) + "\n"


def _top(entries: Sequence[KeyEntry]) -> str:
    task = next(entry for entry in entries if entry.path == "task")
    extends = f"| `extends` | a text in quotes | unset | {EXTENDS} |"
    return "\n".join([*_HEAD, extends, _row(task)])


_CORPORA = """\
One table, or a list of several: `train = [{ source = "a.en", target = "a.de" }, { tsv = "b.tsv" }]`. One key decides
the container: two aligned files, `tsv`, `csv`, `jsonl` and so on. In tables and JSON lines, the roles that are set
(`source`, `text`, `label`, `image`, ...) decide what a row has: see
[containers and roles](../guide/data.md#containers-and-roles). `valid` and `test` have the same keys."""
_HEAD = ("| key | value | default | meaning |", "|---|---|---|---|")


def _table_paths(entries: Sequence[KeyEntry]) -> Iterator[tuple[str, int]]:
    """Yield the path of every table once, with the level of its heading."""
    for path in dict.fromkeys(entry.path for entry in entries if entry.tables):
        if path in ("data.valid", "data.test"):
            continue  # as data.train
        yield path, 2 + min(path.count("."), 1)


def _table(path: str, level: int, entries: Sequence[KeyEntry], seen: dict[type[Section], str]) -> Iterator[str]:
    holders = [entry for entry in entries if entry.path == path]
    heading = f"[{path}]" if path != "data.train" else "[data] train, valid, test"
    yield f"{'#' * level} `{heading}`"
    said = [_CORPORA] if path == "data.train" else [entry.meaning.replace("\n", "\n\n") for entry in holders]
    yield from dict.fromkeys(said)
    members = {table: None for holder in holders for table in holder.tables.values()}
    for table in members:
        label = kind_label(table) if len(members) > 1 else ""
        title = f"**`{label}`**: " if label else ""
        if path == "data.train":
            title = f"**{chosen_by(path, table).capitalize()}**: "
        tasks = _tasks_of(path, table, entries)
        where = f" Tasks: {tasks}." if tasks != "all" else ""
        if table in seen:
            yield f"{title}{table_meaning(table)} Its keys are those of `[{seen[table]}]`.{where}"
            continue
        seen[table] = path
        stop = "" if table_meaning(table).endswith(".") else "."
        yield f"{title}{table_meaning(table)}{stop}{where}"
        rows = [_row(entry) for entry in _inside(path, table, entries) if entry.key not in MARKS and entry.tasks]
        yield "\n".join([*_HEAD, *rows])


def _inside(path: str, table: type[Section], entries: Sequence[KeyEntry]) -> list[KeyEntry]:
    """Return the entries of the keys of one kind of a table."""
    found = [entry for entry in entries if entry.holder is table and entry.table == path]
    return list({entry.key: entry for entry in found}.values())


def _tasks_of(path: str, table: type[Section], entries: Sequence[KeyEntry]) -> str:
    """Return the tasks that have a kind of table at a path."""
    within = [entry for entry in entries if entry.holder is table and entry.table == path]
    return tasks_in_words([task for task in TASKS if any(task in entry.tasks for entry in within)])


def _row(entry: KeyEntry) -> str:
    own = "" if set(entry.tasks) == set(_usual_tasks(entry)) else f" Tasks: {tasks_in_words(entry.tasks)}."
    default = entry.default_in_words
    shown = default if default in ("required", "unset", "its defaults") else f"`{default}`"
    value = _value(entry)
    cells = [f"`{entry.key}`", value, shown, entry.meaning.replace("\n", " ") + own]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _value(entry: KeyEntry) -> str:
    if is_list(entry.field.annotation) and entry.tables:
        return "a corpus, or a list of them"
    if not entry.tables:
        return entry.value
    kinds = [toml_value(kind_of(table)) for table in entry.tables.values() if len(entry.tables) > 1]
    return (
        f"{', '.join([*kinds, ''])[:-1]} or a table: `[{entry.path}]`" if kinds else f"{entry.value}: `[{entry.path}]`"
    )


def _usual_tasks(entry: KeyEntry) -> tuple[str, ...]:
    """Return the tasks of the other keys of a table, of which a row says nothing."""
    around = [other for other in _ENTRIES if other.holder is entry.holder and other.table == entry.table]
    return tuple(task for task in TASKS if any(task in other.tasks for other in around))


_ENTRIES = all_entries()
