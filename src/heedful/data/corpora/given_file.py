"""A corpus for a file that is not in the recipe: its container and its columns, as the recipe's corpora have them.

The container is the recipe's, unless the file is something else by its name or its first rows. Columns are those of
the recipe, by name or by number, then those that are called like a role; `overrides` such as `data.text=review` come
before both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from heedful.base.errors import UserError, UserErrors, by_caller, counted
from heedful.config.corpora.containers import (
    FORMS,
    AlignedFiles,
    AnyCorpus,
    Builtin,
    Corpora,
    Csv,
    Jsonl,
    PlainText,
    Tsv,
)
from heedful.config.corpora.roles import ROLES, role_noun
from heedful.config.reading.complaints import complaints
from heedful.config.reading.draft import Override, draft_of, override_of, with_overrides
from heedful.config.recipe import Recipe
from heedful.config.section import Section
from heedful.data.corpora.formats.detection import Detected, detect
from heedful.data.corpora.formats.lines import check_exists, check_folder, locate
from heedful.data.corpora.formats.settling import UnclearTableError, without_roles

_TABLES: Final = ("csv", "tsv", "jsonl")
_UNSURE: Final = ("csv", "tsv", "conll", "text", "empty")  # what a short file may be taken for
_OWN: Final = ("name", "weight", "lines", "part", "sample", "separator")  # keys about the recipe's own file
# Containers that detection tells apart, and the key that recipes have for them.
_KEYS: Final[Mapping[str, str]] = {
    "conllu": "conll",
    "image_folder": "images",
    "folder": "images",
    "json": "jsonl",
    "squad_rows": "jsonl",
}
_NAMES_SHOWN: Final = 10
_KINDS: Final[Mapping[str, str]] = {"label": "label", "number": "number", "image": "image"}  # of columns, by role


class _GivenData(Section):
    """The place of a corpus in a recipe, so that messages about its keys are those of recipes."""

    test: Corpora


class _Given(Section):
    """See `_GivenData`."""

    data: _GivenData


def given_corpus(
    recipe: Recipe, path: str, overrides: Sequence[str] = (), *, answered: Sequence[str] = ()
) -> AnyCorpus:
    """Return the corpus of a file: with what is true of its rows, or, with `answered`, with these roles alone.

    The recipe's folder does not apply to it. A file without these roles is refused with a list of its columns.
    """
    rules, template, given = recipe.rules, _template(recipe), _parsed(overrides)
    file = locate(path)
    (check_folder if file.path.is_dir() else check_exists)(replace(file, hint=""))
    needed = [role for role in rules.roles[0].read if role in rules.roles[0].needed or role in rules.inputs]
    asked = [role for role in answered or needed if role != "second" or recipe.data.paired]
    form, found = _form(path, template, [override.path[1] for override in given], bool(answered))
    table = _table(path, form, template)
    absent = list[str]()  # what is true of rows, and is not in the file
    if form in _TABLES:
        truths = [role for role in rules.roles[0].needed if role in ROLES and role not in asked]
        columns = _Columns(path, form, found, rules.needs)
        table = _with_places(columns, table, given, asked, truths if answered else rules.roles[0].optional)
        absent = [role for role in truths if role not in table]
        table = {**{role: f"({role})" for role in absent}, **table}  # a corpus needs them: they are removed below
    elif form == "idx" and answered:
        table["labels"] = path  # which are not read
    elif form == "pairs" and not any(override.path[1] == "target" for override in given):
        way_out = by_caller("give --source and --target, or add --set data.target=FILE", "give rows")
        raise UserError(f"{path} is plain text, of which each line is one side of a pair: {way_out}.")
    corpus = _checked(path, table, given)
    if not answered and not rules.takes(corpus):
        raise UserError(f"{path} has {corpus.row_kind.words}, but {rules.needs}.")
    if not isinstance(corpus, Tsv | Csv | Jsonl):
        return corpus
    dropped = set(ROLES).difference(asked) if answered else ()
    try:
        return without_roles(corpus.model_copy(update=dict.fromkeys(absent)), dropped)
    except UnclearTableError as unclear:
        options = " or ".join(f"--set data.{unclear.key}={value}" for value in unclear.values)
        raise UserError(f"{unclear.doubt}: {by_caller(f'add {options}', 'give rows')}.") from None


def _template(recipe: Recipe) -> AnyCorpus:
    """Return the corpus of the recipe that the file is most like: its first test corpus that is in a file."""
    corpora = [*recipe.data.test, *recipe.data.valid, *recipe.data.train]
    return next((corpus for corpus in corpora if not isinstance(corpus, Builtin)), corpora[0])


def _parsed(overrides: Sequence[str]) -> list[Override]:
    """Return overrides of the form `data.text=review`."""
    found = []
    for text in overrides:
        override = override_of(text)
        if len(override.path) != 2 or override.path[0] != "data":
            raise UserError(
                f"{override.label}: next to {by_caller('--data', '`data`')}, only keys of its corpus can be set, such "
                "as data.text=review."
            )
        found.append(override)
    return found


# --- containers -------------------------------------------------------------------------------------------------------


def _form(path: str, template: AnyCorpus, keys: Sequence[str], answered: bool) -> tuple[str, Detected]:
    """Return the container's key in recipes, "pairs" or "text" without one, and what the file looks like."""
    known, found = _form_of(template), detect(path)
    asked = next((key for key in keys if key in FORMS), None)
    container = _KEYS.get(found.container, found.container)
    alike = any(Path(name).suffix == Path(path).suffix != "" for name in template.files())
    if asked is not None:
        return asked, found
    if known == container or (alike and container in _UNSURE and not (answered and known in ("pairs", "text"))):
        return known, found
    if container in ("text", "empty"):
        return "text" if answered or known == "builtin" else known, found
    if found.container == "squad_rows" and not answered and known != "jsonl":
        return "squad", found
    if container == "image":
        raise UserError(f"{path} is {found.words}, which {by_caller('--data', '`data`')} does not take.")
    return container, found


def _form_of(corpus: AnyCorpus) -> str:
    if isinstance(corpus, AlignedFiles):
        return "pairs"
    return "text" if isinstance(corpus, PlainText) else next(form for form in FORMS if hasattr(corpus, form))


def _table(path: str, form: str, template: AnyCorpus) -> dict[str, Any]:
    """Return the keys of the corpus: those of the template, as far as the container has them, and the file."""
    written = template.model_dump(exclude_none=True, exclude={*_OWN, *template.file_keys, *template.folder_keys})
    if not written.get("header"):
        written.pop("header", None)  # the file may have one
    same = form == _form_of(template)
    kept = {key: value for key, value in written.items() if same or (form in _TABLES and key in ROLES)}
    if not same:
        kept = {role: place for role, place in kept.items() if isinstance(place, str)}  # not by number
    if form == "pairs":
        return {**kept, "source": path}
    return {**kept, form: path}


# --- columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """The columns of a file, or the fields of its rows."""

    path: str
    form: str
    found: Detected
    needs: str  # what the task learns from: completes "FILE is ..., but "

    @property
    def names(self) -> list[str]:
        """Their names, those of JSON objects that hold fields too; none where the first line has no names."""
        names = [column.place for column in self.found.columns if isinstance(column.place, str)]
        holders = [name.rpartition(".")[0] for name in names] if self.form == "jsonl" else []
        return [*names, *dict.fromkeys(filter(None, holders))]

    def refuse(self, role: str, place: object, taken: Sequence[object]) -> UserError:
        """Say that a role has no column, which columns there are, and how to name one."""
        if self.found.container == "empty":
            return UserError(f"{self.path} is empty: give a file with rows.")
        if not self.found.columns:
            return UserError(f"{self.path} is {self.found.words}, but {self.needs}.")
        noun = "field" if self.form == "jsonl" else "column"
        columns = [str(column.place) for column in self.found.columns]
        listed = ", ".join(columns[:_NAMES_SHOWN]) + (", ..." if len(columns) > _NAMES_SHOWN else "")
        if not self.names:
            listed = f"{counted(len(columns), 'column')} without {'a name' if len(columns) == 1 else 'names'}"
        free = [column for column in self.found.columns if column.place not in taken]
        fits = (column.place for column in free if column.kind == _KINDS.get(role, "text"))
        example = f"--set data.{role}={next(fits, free[0].place if free else 1)}"
        way_out = by_caller(f"name the one with the {role_noun(role)}s, as in {example}", f"give rows with `{role}`")
        return UserError(f"{self.path} has no {noun} `{place or role}`, but {listed}: {way_out}.")


def _with_places(
    columns: _Columns,
    table: Mapping[str, Any],
    given: Sequence[Override],
    asked: Sequence[str],
    optional: Sequence[str],
) -> dict[str, Any]:
    """Return the keys of a table with the columns of the roles that are asked for, and its separator."""
    set_here = {override.path[1]: override.value for override in given}
    places = {key: value for key, value in table.items() if key not in ROLES}
    if columns.form == "csv" and columns.found.container == "csv" and columns.found.separator:
        places["separator"] = columns.found.separator
    for role in (*asked, *(role for role in optional if role not in asked)):
        place = set_here.get(role, table.get(role))
        reached = isinstance(place, int) and (role in asked or place <= len(columns.found.columns))
        if place in columns.names or (reached and (role in set_here or role not in columns.names)):
            places[role] = place
        elif role in columns.names and role not in set_here:
            places[role] = role
        elif columns.found.container == "squad_rows" and role == "text" and role not in set_here:
            places[role] = "context"
        elif isinstance(place, str) and role not in set_here and place in columns.found.facts.get("first", ()):  # type: ignore[operator]
            places[role] = place  # the first line has the name, which few rows do not show to be one
        elif role in asked and (columns.names or role not in set_here):
            raise columns.refuse(role, place, list(places.values()))
    return places


def _checked(path: str, table: Mapping[str, Any], given: Sequence[Override]) -> AnyCorpus:
    """Return the corpus with its overrides; refuse keys and values that it cannot have, as a recipe's."""
    moved = [Override(("data", "test", "0", override.path[1]), override.value, override.label) for override in given]
    moved = [override for override in moved if override.path[-1] not in FORMS]
    draft, lines = with_overrides(draft_of(path, {"data": {"test": [dict(table)]}}), moved)
    try:
        checked = _Given.model_validate(draft.values)
    except ValidationError as error:
        shown = [line.replace("`data.test.0.", "`data.") for line in complaints(draft, error)]
        raise UserErrors([*lines, *shown]) from None
    if lines:
        raise UserErrors(lines)
    return checked.data.test[0]
