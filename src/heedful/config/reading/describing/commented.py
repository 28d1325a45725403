"""`heedful config show`: a resolved recipe as TOML, with the keys that it does not set as comments."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from heedful.config.corpora.corpus import Corpus
from heedful.config.reading.describing.entries import KeyEntry, applies, is_in
from heedful.config.reading.outline import MARKS
from heedful.config.reading.toml import toml_item, toml_value
from heedful.config.recipe import Recipe
from heedful.config.section import Section
from heedful.config.task_rules import TaskRules

_WIDEST = 36  # column of the meanings, where a line is not longer


def commented_toml(recipe: Recipe, taken_over: Collection[str] = ()) -> str:
    """Write a recipe that loads as the same one: keys that are set, and the others as comments with their meaning.

    What does not apply to the recipe's task is left out. `taken_over` are keys and tables whose defaults are not those
    of the schema, as they come from a model that is not at hand.
    """
    lines = "\n\n".join(_table(recipe, "", recipe.rules, taken_over)).split("\n")
    return "\n".join(_with_origins(lines, recipe)) + "\n"


def _with_origins(lines: Sequence[str], recipe: Recipe) -> Iterator[str]:
    """Mark the keys that follow the run."""
    followed, table = recipe.followed, ""
    for line in lines:
        table = line.strip("[]") if line.startswith("[") else table
        key, is_key, _ = line.partition(" = ")
        path = f"{table}.{key}" if table else key
        own = followed is not None and is_key and is_in(path, followed.keys)
        yield f"{line}  # default for {followed.corpus or 'this run'}" if followed and own else line


def _table(section: Section, name: str, rules: TaskRules, taken_over: Collection[str]) -> list[str]:
    """Return the blocks of a table: its keys under one heading, then each table inside it."""
    lines, comments, blocks = [], [], []
    for key in sorted(type(section).model_fields, key=lambda key: key not in MARKS):
        entry = KeyEntry(f"{name}.{key}" if name else key, type(section), (), ())
        value, is_set = getattr(section, key), _is_set(section, entry)
        if not is_set and (not applies(entry.path, rules) or is_in(entry.path, taken_over)):
            continue
        if isinstance(value, Section):
            blocks += _table(value, entry.path, rules, taken_over)
        elif is_set:
            lines.append(f"{key} = {toml_item(_plain(value))}")
            comments += [line for line in _unused_keys(entry, value, rules) if line not in comments]
        else:
            comments.append(_unset(entry))
    if not lines and not comments:
        return blocks
    heading = ([f"[{name}]"] if lines else [f"# [{name}]"]) if name else []
    return ["\n".join([*heading, *lines, *comments]), *blocks]


def _is_set(section: Section, entry: KeyEntry) -> bool:
    """Whether the recipe sets a key: it writes it, or its value is not the default."""
    value = getattr(section, entry.key)
    if value is None:
        return False
    return entry.key in section.model_fields_set or value != entry.default


def _unset(entry: KeyEntry) -> str:
    """Return a key that is not set as a comment: its default and its meaning."""
    default = "unset" if entry.default is None else toml_value(_plain(entry.default))
    return f"{f'# {entry.key} = {default}':{_WIDEST}}  # {entry.brief}"


def _unused_keys(entry: KeyEntry, value: Any, rules: TaskRules) -> list[str]:
    """Return a comment with the keys that no corpus of a list sets."""
    corpora = [corpus for corpus in value if isinstance(corpus, Corpus)] if isinstance(value, tuple) else []
    if not corpora:
        return []
    used = {key for corpus in corpora for key in _plain(corpus)}
    keys = dict.fromkeys(key for corpus in corpora for key in corpus.keys)
    others = [key for key in keys if key not in used and applies(f"{entry.path}.{key}", rules)]
    return [f"# A corpus also takes {', '.join(others)}: `heedful config explain data.train`."] if others else []


def _plain(value: Any) -> Any:
    """Return a value as the writer of TOML takes it; a corpus has the keys that it sets."""
    if isinstance(value, Corpus):
        return {key: item for key, item in value.model_dump(exclude_unset=True).items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
