"""The base class of every table of a recipe, and types of values that several tables share."""

import ast
import inspect
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, lt=1)]
# Sizes that no machine holds are refused here, before anything is built: the bounds are far above any model's.
Layers = Annotated[int, Field(ge=1, le=1_000)]
Width = Annotated[int, Field(ge=1, le=1_000_000)]
Positions = Annotated[int, Field(ge=1, le=1_000_000)]
CellName = Literal["gru", "gru_paper", "lstm", "tanh", "relu"]  # of recurrent networks
VocabularySize = Annotated[int, Field(ge=1, le=10_000_000)]
BatchTokens = Annotated[int, Field(ge=1, le=100_000_000)]
_MOST: Final = 10**12


def as_tuple(value: Any) -> Any:
    """Return a value of a key that takes one, or a list of them, as a tuple."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


class Section(BaseModel):
    """A table of a recipe: unknown keys are errors, neither `true` nor "6" is a number, and values never change.

    The string below a key is its meaning: its first paragraph is one sentence or two. `heedful config`, the JSON Schema
    and the reference pages read it from the source (`written_meaning`), as pydantic's way to read all of them when the
    classes are made costs every command a fifth of a second. A class that only changes the default of an inherited key
    does not repeat it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _read_whole_numbers(cls, values: Any) -> Any:
        """Read 1e5, a float in TOML, as 100000 where a whole number is expected."""
        if not isinstance(values, dict):
            return values
        whole = {key: value for key, value in values.items() if isinstance(value, float) and value.is_integer()}
        return values | {key: int(value) for key, value in whole.items() if _expects_whole_number(cls, key)}

    @model_validator(mode="after")
    def _numbers_mean_something(self) -> Self:
        for key in self.model_fields_set - {"seed"}:
            value = getattr(self, key)
            if isinstance(value, int) and value > _MOST:
                raise ValueError(f"`{key}` must be at most {_MOST:,}, as no machine can hold more")
        return self


@cache
def _expects_whole_number(section: type[Section], key: str) -> bool:
    """Whether the value of a key may be a whole number, and not any other number."""
    field = section.model_fields.get(key)
    kinds = _types(field.annotation) if field else set()
    return int in kinds and float not in kinds


def _types(annotation: Any) -> set[Any]:
    """Return the plain types that an annotation consists of."""
    return {annotation}.union(*map(_types, get_args(annotation))) if get_args(annotation) else {annotation}


def written_meaning(section: type[Section], key: str) -> str:
    """Return the string below a key, as paragraphs of one line each; an empty text where there is none.

    A key that a class inherits, or declares again with another default, has the meaning of the class it comes from.
    """
    found = (_meanings(base.__module__).get((base.__name__, key)) for base in section.__mro__)
    return next(filter(None, found), "")


@cache
def _meanings(module: str) -> dict[tuple[str, str], str]:
    """Return the strings below the declarations of a module's classes, by class and name."""
    try:
        tree = ast.parse(inspect.getsource(import_module(module)))
    except (OSError, TypeError):  # installed without its source
        return {}
    found = {}
    for table in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for declared, text in pairwise(table.body):
            match declared, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(meaning))),
                ):
                    found[table.name, name] = flowing(inspect.cleandoc(meaning))
    return found


def flowing(text: str) -> str:
    """Put each paragraph on one line."""
    return "\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


TableType = TypeVar("TableType", bound=Section)


def merge_tables(base: TableType, said: Section | None) -> TableType:
    """Overlay a table with the keys that another sets, recursively; a table of another class replaces it entirely."""
    if said is None:
        return base
    if type(said) is not type(base):
        return said  # type: ignore[return-value] # the caller compares the two and refuses it
    update = {}
    for key in said.model_fields_set:
        ours, theirs = getattr(said, key), getattr(base, key)
        update[key] = merge_tables(theirs, ours) if isinstance(ours, Section) and isinstance(theirs, Section) else ours
    return base.model_copy(update=update)
