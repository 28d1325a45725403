"""A study's file: a question, a base recipe, what is changed in it, and the seeds of each change.

The cells of a study are its changes: those of `[[cells]]`, then those of `[grid]`, the product of all values of its
keys. One of them is the base, against which all others are tested: the cell that changes nothing. A study that has no
such cell gets one, with the name `base`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError

from heedful.base.errors import UserError, suggestion, user_faults
from heedful.config.reading.load import flat, load_recipe, recipe_to_json
from heedful.config.reading.toml import read_recipe_file, toml_value
from heedful.config.recipe import Recipe
from heedful.config.section import Section, as_tuple

BASE: Final = "base"  # name of the cell that changes nothing, where the study has none of its own
_SEED_KEY: Final = "train.seed"
_MOST_CELLS: Final = 1000  # of a grid: all its recipes are read before anything is trained
_FREE: Final = ("data.folder",)  # keys in which the same study may differ from machine to machine
# Keys that count updates: with `equal_tokens` they are multiplied where batches are smaller.
_COUNTED: Final = (
    "train.steps", "train.schedule.warmup", "train.warmup.steps", "train.validation.every", "train.checkpoint_every",
    "train.log_every",
)  # fmt: skip
_FULL_NAMES: Final = ("kind", "lr", "steps")  # last parts of keys that say little without the part before them

Settings = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
Name = Annotated[str, Field(min_length=1, max_length=100)]


class CellTable(Section):
    """A change of the base recipe."""

    name: Name
    """What the change is called on the page."""
    recipe: str | None = None
    """Another recipe that the cell begins with, instead of `base`; the study's own `set` applies to it too."""
    set: Settings = ()
    """Keys that are changed, as `--set` has them: ["model.layers=3"]."""


class StudyTable(Section):
    """The keys of a study's file."""

    title: str = ""
    """Heading of the page; by default the name of the file."""
    question: str = ""
    """What the study asks, in words."""
    conclusion: str = ""
    """What was found, in words, written by a person after the run."""
    base: Name
    """Recipe that is changed: a file, or a recipe that ships with Heedful."""
    seeds: Annotated[tuple[int, ...], BeforeValidator(as_tuple), Field(min_length=1)] = (1,)
    """Seeds that each cell is trained with."""
    set: Settings = ()
    """Keys that all cells change."""
    cells: Annotated[tuple[CellTable, ...], BeforeValidator(as_tuple)] = ()
    """Changes, one by one."""
    grid: dict[str, list[Any]] = {}  # noqa: RUF012 - a key of a table, which pydantic copies
    """Values by key: every combination of them is a cell."""
    metric: str | None = None
    """Score that the page compares; by default the first score of the task."""
    by_length: bool = False
    """Whether the page shows the score by sentence length."""
    sentence: str = ""
    """Sentence whose alignment the page shows for every cell."""
    instruments: bool = False
    """Whether the page shows what `train.instruments` recorded."""
    equal_tokens: bool = False
    """Whether all cells train on as many tokens as the base: smaller batches get more updates, larger ones fewer.

    All numbers of updates in the file are those of the base's batches.
    """
    timed: Annotated[tuple[Literal["cpu", "cuda"], ...], BeforeValidator(as_tuple)] = ()
    """Devices on which an update of each cell is timed alone, after all runs; one that is missing is left out."""


@dataclass(frozen=True)
class StudyCell:
    """A recipe of a study, without its seed."""

    name: str
    recipe: str  # that it begins with
    settings: tuple[str, ...]  # all that is set in it, the study's own first
    changes: tuple[str, ...]  # what this cell changes
    slug: str  # in names of folders

    def load(self, seed: int) -> Recipe:
        """Return its recipe with a seed."""
        return load_recipe(self.recipe, [*self.settings, f"{_SEED_KEY}={seed}"])


@dataclass(frozen=True)
class Study:
    """A study that can be run: its cells are complete, different recipes."""

    name: str
    table: StudyTable
    cells: tuple[StudyCell, ...]
    base: str  # name of the cell that the others are tested against
    keys: Mapping[str, Mapping[str, Any]] = field(repr=False)  # values of each cell's recipe, by dotted key
    overrides: tuple[str, ...] = ()  # what the command line sets in all cells, other than where data lies

    @property
    def title(self) -> str:
        """Heading of its page."""
        return self.table.title or self.name

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of each cell."""
        return self.table.seeds

    def cell(self, name: str) -> StudyCell:
        """Return the cell of this name."""
        return next(cell for cell in self.cells if cell.name == name)


def read_study(path: Path, overrides: Sequence[str] = (), seeds: Sequence[int] | None = None) -> Study:
    """Read a study's file and check all its recipes; `overrides` are set in all of them, after all else.

    `seeds` replace those of the file.
    """
    table = _read_table(path)
    if seeds is not None:
        table = table.model_copy(update={"seeds": tuple(seeds)})
    if len(set(table.seeds)) < len(table.seeds):
        raise UserError(f"{path}: `seeds` has {_first_repeated(table.seeds)} twice: leave it out once.")
    if not table.cells and not table.grid:
        raise UserError(f"{path}: there is nothing to compare: add [[cells]] or a [grid].")
    listed = [*table.cells, *_grid_cells(path, table.grid)]
    names = [cell.name for cell in listed]
    if len(set(names)) < len(names):
        raise UserError(f"{path}: two cells have the name `{_first_repeated(names)}`: give one another name.")
    settings = [*table.set, *overrides, *(text for cell in listed for text in cell.set)]
    if any(text.partition("=")[0].strip() == _SEED_KEY for text in settings):
        raise UserError(f"{path}: `{_SEED_KEY}` is set, but a study has `seeds`: use that.")
    unchanged = _cell(path, table, CellTable(name=BASE), overrides)
    cells = [_cell(path, table, cell, overrides) for cell in listed]
    values = {cell.name: _values(path, cell, table) for cell in cells}
    base_values = _values(path, unchanged, table)
    if table.equal_tokens:
        cells = [_with_equal_tokens(cell, values[cell.name], base_values) for cell in cells]
        values = {cell.name: _values(path, cell, table) for cell in cells}
    base = next((name for name, known in values.items() if known == base_values), None)
    if base is None:
        if BASE in values:
            raise UserError(
                f"{path}: the cell `{BASE}` changes something, but the base is the recipe without changes: give the "
                "cell another name."
            )
        cells, values, base = [unchanged, *cells], {BASE: base_values, **values}, BASE
    for number, (name, known) in enumerate(values.items()):
        same = next((other for other, before in [*values.items()][:number] if before == known), None)
        if same is not None:
            raise UserError(f"{path}: the cells `{same}` and `{name}` are the same recipe: leave one of them out.")
    slugs = [cell.slug for cell in cells]  # numbered where several cells have one in common
    for number, cell in enumerate(cells):
        earlier = slugs[:number].count(cell.slug)
        cells[number] = replace(cell, slug=f"{cell.slug}.{earlier + 1}") if earlier else cell
    own = tuple(text for text in overrides if text.partition("=")[0].strip() not in _FREE)
    return Study(path.stem, table, tuple(cells), base, values, own)


def first_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Return the first key in which two recipes differ, other than where their data lies; None if they are equal."""
    keys = sorted(key for key in one.keys() | other.keys() if key not in _FREE)
    return next((key for key in keys if one.get(key) != other.get(key)), None)


# --- reading --------------------------------------------------------------------------------------------------------


def _read_table(path: Path) -> StudyTable:
    values = read_recipe_file(path)
    try:
        return StudyTable.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = CellTable.model_fields if len(first["loc"]) > 1 else StudyTable.model_fields
            raise UserError(
                f"{path}: `{where}` is not a key of a study.{suggestion(str(first['loc'][-1]), list(known))}"
            ) from None
        if first["type"] == "missing":
            raise UserError(f"{path}: `{where}` is missing: every study needs it.") from None
        raise UserError(f"{path}: `{where}`: {first['msg'][:1].lower()}{first['msg'][1:]}.") from None


def _grid_cells(path: Path, grid: Mapping[str, Sequence[Any]]) -> Iterator[CellTable]:
    """Yield a cell for each combination of values; keys whose short names collide are written in full."""
    for key, values in grid.items():
        if not values:
            raise UserError(f"{path}: `grid.{key}` is an empty list: give it values.")
    if not grid:
        return
    combinations = prod(map(len, grid.values()))
    if combinations > _MOST_CELLS:
        raise UserError(
            f"{path}: [grid] has {combinations:,} combinations, but a study has at most {_MOST_CELLS:,} cells: leave "
            "values out, or make several studies of it."
        )
    short = {}
    for key in grid:
        *before, last = key.split(".")
        short[key] = f"{before[-1]} {last}" if before and last in _FULL_NAMES else last
    names = {key: key if list(short.values()).count(name) > 1 else name for key, name in short.items()}
    for values in product(*grid.values()):
        pairs = list(zip(grid, values, strict=True))
        yield CellTable(
            name=", ".join(f"{names[key]} {_shown(value)}" for key, value in pairs),
            set=tuple(f"{key}={toml_value(value)}" for key, value in pairs),
        )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping) and "kind" in value:
        return " ".join([str(value["kind"]), *(f"{key} {item}" for key, item in value.items() if key != "kind")])
    return value if isinstance(value, str) else toml_value(value)


def _cell(path: Path, table: StudyTable, cell: CellTable, overrides: Sequence[str]) -> StudyCell:
    name = cell.recipe or table.base
    beside = path.parent / name
    recipe = str(beside) if beside.is_file() else name
    slug = re.sub(r"[^\w.]+", "-", cell.name).strip("-.").lower()[:60] or "cell"
    return StudyCell(cell.name, recipe, (*table.set, *cell.set, *overrides), cell.set, slug)


def _values(path: Path, cell: StudyCell, table: StudyTable) -> dict[str, Any]:
    """Return the values of a cell's recipe by dotted key; refuse keys that it does not have, and what has no score."""
    where = f"{path}, cell `{cell.name}`"
    try:
        recipe = cell.load(table.seeds[0])
    except UserError as error:
        first, *others = str(error).split("\n")
        more = f" (and {len(others)} more)" if others else ""
        raise UserError(f"{where}: {first.removeprefix('--set ')}{more}") from None
    if not recipe.data.test and not recipe.data.valid:
        raise UserError(
            f"{where}: the recipe has neither `data.test` nor `data.valid`, but a study scores its models: name one."
        )
    known = recipe.rules.scores
    if table.metric is not None and table.metric not in known:
        raise UserError(
            f"{where}: `metric` is `{table.metric}`, which a model that {recipe.rules.does} is not scored by."
            f"{suggestion(table.metric, known)}"
        )
    return flat(recipe_to_json(recipe))


def tokens_of_update(values: Mapping[str, Any]) -> int:
    """Return the tokens of an update, at most, from the values of a recipe by dotted key."""
    return int(values["data.batch_tokens"]) * int(values["train.accumulate"])


def _with_equal_tokens(cell: StudyCell, values: Mapping[str, Any], base: Mapping[str, Any]) -> StudyCell:
    """Return the cell with as many updates as make the tokens of the base, and all else that is counted in updates."""
    factor = tokens_of_update(base) / tokens_of_update(values)
    counts = {key: values[key] for key in _COUNTED if values.get(key)}
    scaled = () if factor == 1 else (f"{key}={max(1, round(count * factor))}" for key, count in counts.items())
    return replace(cell, settings=(*cell.settings, *scaled))


def _first_repeated(values: Sequence[Any]) -> Any:
    return next(value for number, value in enumerate(values) if value in values[:number])


# --- shipped studies ------------------------------------------------------------------------------------------------


def shipped_studies() -> dict[str, Path]:
    """Return the studies that ship with Heedful, by name: those of the repository, or of the installed package."""
    package = Path(__file__).parents[2]
    installed = package / "studies"
    folder = installed if installed.is_dir() else package.parents[1] / "studies"
    return {path.stem: path for path in sorted(folder.glob("*.toml"), key=lambda path: path.stem)}


def find_study(path_or_name: str) -> Path:
    """Return the file of a study, given as a path or as the name of a shipped study."""
    path, shipped = Path(path_or_name), shipped_studies()
    with user_faults(path):
        if path.exists():
            return path
    if path_or_name in shipped:
        return shipped[path_or_name]
    if path.name != path_or_name or path.suffix:
        raise UserError(f"{path}: no such file.")
    raise UserError(f"`{path_or_name}` is neither a file nor a shipped study.{suggestion(path_or_name, list(shipped))}")


def title_of(path: Path) -> str:
    """Return the heading of a study's page, without reading its recipes."""
    return str(read_recipe_file(path).get("title", path.stem))
