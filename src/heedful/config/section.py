"""The base class of every table of a recipe, and types of values that several tables share."""

from typing import Annotated, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, lt=1)]
_MOST: Final = 10**12


class Section(BaseModel):
    """A table of a recipe: unknown keys are errors, neither `true` nor "6" is a number, and values never change.

    The string below a key is its meaning: its first paragraph is one sentence or two. `heedful config`, the JSON Schema
    and the reference pages read it from the source (`describing/meanings.py`). A class that only changes the default of
    an inherited key does not repeat it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _numbers_mean_something(self) -> Self:
        for key in self.model_fields_set - {"seed"}:
            value = getattr(self, key)
            if isinstance(value, int) and value > _MOST:
                raise ValueError(f"`{key}` must be at most {_MOST:,}, as no machine can hold more")
        return self


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
