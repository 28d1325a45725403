"""Every key of a recipe as one entry: where it is, what it must be, its default, its meaning and its tasks."""

import inspect
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from heedful.config.corpora.corpus import Corpus
from heedful.config.reading.outline import (
    MARKS,
    Sections,
    constraints_of,
    kind_of,
    mark_of,
    must_be,
    tables_in,
)
from heedful.config.reading.toml import toml_value
from heedful.config.recipe import Recipe
from heedful.config.section import Section, flowing, written_meaning
from heedful.config.task_rules import TaskRules
from heedful.config.tasks import TASKS

EXTENDS: Final = (
    "Another recipe whose keys are the defaults of this one: a file next to it, or the name of a shipped recipe."
)

_OF_ALL_TASKS: Final = ("decode", "decode.precision")  # although other keys of the table are those of some tasks

TRAINING_CORPORA: Final[Mapping[str, str]] = {  # by task, where it is not the example of the key
    "classify": '{ tsv = "reviews.tsv", label = 1, text = 2 }',
    "fill": '{ text = "train.txt" }',
    "generate": '{ text = "train.txt", documents = "file" }',
    "parse": '{ trees = "train.trees" }',
}
COMPANIONS: Final[Mapping[str, Mapping[str, str]]] = {  # keys that must be set next to another, and their values
    "Tabular.part": {"text": '"review"'},
    "Tabular.sample": {"text": '"review"'},
    "Tabular.second": {"text": '"review"'},
    "Tabular.label": {"text": '"review"'},
    "Tabular.number": {"text": '"review"'},
    "Tabular.image": {"label": '"animal"'},
    "Tabular.caption": {"image": '"path"'},
    "Tabular.question": {"text": '"report"', "answer": '"answer"'},
    "Tabular.answer": {"text": '"report"', "question": '"question"'},
    "Tabular.start": {"text": '"report"', "question": '"question"', "answer": '"answer"'},
    "Tabular.group": {"image": '"path"', "question": '"question"', "answer": '"answer"'},
    "Builtin.label": {"builtin": '"scenes"'},
    "Builtin.questions": {"builtin": '"scenes"'},
    "Builtin.unanswerable": {"builtin": '"reports"'},
    "Weighting.feature_map": {"alignment": '"kernel"'},
    "Weighting.score_scale": {"alignment": '"general"'},
    "Weighting.score_activation": {"alignment": '"deep"'},
    "Weighting.score_depth": {"alignment": '"deep"'},
    "Weighting.gate": {"distribution": '"de_attention"'},
    "TransformerModel.kernel": {"encoder_layer": '"convolution"'},
    "TransformerModel.dilation": {"encoder_layer": '"convolution"'},
}


@dataclass(frozen=True)
class KeyEntry:
    """One key of one kind of table."""

    path: str  # dotted: "train.validation.patience"
    holder: type[Section]  # the table that has the key
    within: tuple[str, ...]  # what chooses this kind of table, and those around it: 'train.schedule.kind = "linear"'
    tasks: tuple[str, ...]  # tasks that the key applies to

    @property
    def key(self) -> str:
        """Last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def field(self) -> FieldInfo:
        """Declaration of the key."""
        return self.holder.model_fields[self.key]

    @property
    def tables(self) -> Sections:
        """Tables that the value can be or hold, by kind; none for a plain value."""
        return tables_in(self.field.annotation)

    @property
    def required(self) -> bool:
        """Whether the key must be set where its table is."""
        return self.field.is_required()

    @property
    def default(self) -> Any:
        """Default value; None where there is none."""
        return None if self.required else self.field.get_default(call_default_factory=True)

    @property
    def default_in_words(self) -> str:
        """Default value as it is written in a recipe, "required", "unset", or "its defaults" for a table."""
        if self.required:
            return "required"
        if isinstance(self.default, Section):
            return toml_value(kind_of(type(self.default))) if len(self.tables) > 1 else "its defaults"
        return "unset" if self.default is None else toml_value(self.default)

    @property
    def value(self) -> str:
        """What the value must be, in words, with its bounds."""
        if self.path in _VALUES:
            return _VALUES[self.path]
        if self.key in MARKS:
            return f'"{self.holder.model_fields[self.key].annotation.__args__[0]}"'  # type: ignore[union-attr]
        return must_be(self.field.annotation, constraints_of(self.field), "all")

    @property
    def meaning(self) -> str:
        """Meaning of the key, in paragraphs."""
        if self.key in MARKS:
            return f"The {self.key} of this table, which decides its other keys."
        return written_meaning(self.holder, self.key)

    @property
    def brief(self) -> str:
        """First paragraph of the meaning."""
        return self.meaning.partition("\n")[0]

    @property
    def example(self) -> str:
        """A value as it is written in a recipe: an example where there is one, otherwise a value near the default."""
        if self.path == "data.train" and self.tasks and self.tasks[0] in TRAINING_CORPORA:
            return TRAINING_CORPORA[self.tasks[0]]
        bases = [base for base in self.holder.__mro__ if issubclass(base, Section) and self.key in base.model_fields]
        given = next((each for base in bases if (each := base.model_fields[self.key].examples)), None)
        if given is not None:
            return toml_value(given[0])
        return self.value if self.key in MARKS else toml_value(self._near_default())

    def _near_default(self) -> Any:
        """Return another value than the default that its table takes too; the default if there is none."""
        needed = tomllib.loads("\n".join(self._beside()))
        for value in _neighbours(self.default, self.field.annotation):
            with suppress(ValidationError):
                self.holder.model_validate({**needed, self.key: value})
                return value
        return self.default

    @property
    def example_table(self) -> list[str]:
        """Lines of a recipe that set the key: its table, what chooses the kind of it, the keys it must have."""
        lines = list(dict.fromkeys([*self._beside(), f"{self.key} = {self.example}"]))
        if issubclass(self.holder, Corpus):
            above, _, name = self.table.rpartition(".")
            return [f"[{above}]", f"{name} = {{ {', '.join(lines)} }}"]
        return [f"[{self.table}]", *lines] if self.table else [f"{self.key} = {self.example}"]

    def _beside(self) -> list[str]:
        """Return the lines that the key's table must have as well."""
        chosen = mark_of(self.holder)
        keys = [key for key, field in self.holder.model_fields.items() if field.is_required() or key == chosen]
        values = {key: replace(self, path=f"{self.table}.{key}").example for key in keys if key != self.key}
        for base in self.holder.__mro__:
            values |= COMPANIONS.get(f"{base.__name__}.{self.key}", {})
        return [f"{key} = {value}" for key, value in values.items()]

    @property
    def table(self) -> str:
        """Path of the table that has the key; empty at the top of a recipe."""
        return self.path.rpartition(".")[0]


def _neighbours(default: Any, annotation: Any) -> Iterator[Any]:
    """Yield values of the kind of a default: the others of a choice, twice the number and half of it."""
    match default:
        case bool():
            yield not default
        case int() | float():
            doubled, halved = 2 * default, type(default)(default / 2)
            yield from (value for value in (doubled, halved, type(default)(1), 0.1) if value != default)
        case str():
            yield from (value for value in _choices(annotation) if value != default)


def _choices(annotation: Any) -> list[str]:
    """Return the texts that a key may be set to, if these are all."""
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return [part for part in parts if isinstance(part, str)]
    return [choice for part in parts for choice in _choices(part)]


def all_entries() -> list[KeyEntry]:
    """Return an entry for each key of each kind of table, in the order of the schema."""
    return list(_walk(Recipe, "", (), tuple(TASKS)))


def entries_of(path: str) -> list[KeyEntry]:
    """Return the entries at a dotted path: one for each kind of table that has the key; none for an unknown key."""
    plain = ".".join(part for part in path.split(".") if not part.isdecimal())
    return [entry for entry in all_entries() if entry.path == plain and entry.tasks]


def applies(path: str, rules: TaskRules) -> bool:
    """Whether a key applies to a task: it belongs to all tasks, or to this one."""
    if path in _OF_ALL_TASKS:
        return True
    return is_in(path, rules.all_own_keys) or not any(is_in(path, other.all_own_keys) for other in TASKS.values())


def table_meaning(section: type[Section]) -> str:
    """Return what a table is: the first paragraph of its class's docstring, with its paper in parentheses."""
    first = (inspect.getdoc(section) or "").partition("\n\n")[0]
    return flowing(re.sub(r"   +(\S.*)$", r" (\1)", first))


def kind_label(section: type[Section]) -> str:
    """Return the line that chooses a table's kind, such as `kind = "adam"`; an empty text where there is one kind."""
    mark = mark_of(section)
    return f'{mark} = "{kind_of(section)}"' if mark else ""


def chosen_by(path: str, table: type[Section]) -> str:
    """Return what chooses a kind of table: its `kind` or `family`, or the keys that a corpus of this form needs."""
    label = kind_label(table)
    if label:
        return f"{path}.{label}"
    needed = [key for key, field in table.model_fields.items() if field.is_required()]
    return f"a corpus with {' and '.join(f'`{key}`' for key in needed)}"


def _walk(section: type[Section], prefix: str, within: tuple[str, ...], tasks: tuple[str, ...]) -> Iterator[KeyEntry]:
    for key, field in section.model_fields.items():
        path = f"{prefix}{key}"
        mine = tuple(task for task in tasks if applies(path, TASKS[task]) and _reads(TASKS[task], section, key))
        entry = KeyEntry(path, section, within, mine)
        yield entry
        tables = tables_in(field.annotation)
        for table in tables.values():
            inside = chosen_by(path, table) if len(tables) > 1 else ""
            theirs = tuple(task for task in mine if _takes(TASKS[task], path, table))
            yield from (
                replace(found, within=(*within, *([inside] if inside else []), *found.within))
                for found in _walk(table, f"{path}.", (), theirs)
            )


def _takes(rules: TaskRules, path: str, table: type[Section]) -> bool:
    """Whether a task can have this kind of table: a model of its families, a corpus of its forms."""
    if path == "model":
        return table.model_fields["family"].annotation.__args__[0] in rules.families  # type: ignore[union-attr]
    return not issubclass(table, Corpus) or any(form.fit_some(kind) for form in rules.roles for kind in table.row_kinds)


def _reads(rules: TaskRules, table: type[Section], key: str) -> bool:
    """Whether a task reads a key: any key of other tables, of a corpus one that its rows have or that chooses them."""
    if not issubclass(table, Corpus):
        return True
    forms = [(form, kind) for form in rules.roles for kind in table.row_kinds if form.fit_some(kind)]
    role = any(key in kind.roles for kind in table.row_kinds)
    return any(key in table.keys_of(kind) and (not role or key in form.read) for form, kind in forms)


def is_in(path: str, keys: Collection[str]) -> bool:
    """Whether a path is one of these keys, or inside one of them."""
    return any(path == key or path.startswith(f"{key}.") for key in keys)


def _metrics() -> str:
    return "; ".join(
        f"{name}: {', '.join(toml_value(metric) for metric in rules.metrics)}" for name, rules in TASKS.items()
    )


_VALUES: Final = {  # values that the types alone do not tell
    "task": ", ".join(toml_value(name) for name in TASKS),
    "train.validation.metric": _metrics(),
}
