"""What every table of a recipe is, and the values that several tables share."""

from typing import Annotated, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, lt=1)]
_MOST: Final = 10**12


class Section(BaseModel):
    """A table of a recipe: unknown keys are errors, `true` is no number and "6" neither, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _numbers_mean_something(self) -> Self:
        for key in self.model_fields_set - {"seed"}:
            value = getattr(self, key)
            if isinstance(value, int) and value > _MOST:
                raise ValueError(f"`{key}` must be at most {_MOST:,}, which no machine can hold")
        return self


TableType = TypeVar("TableType", bound=Section)


def merge_tables(base: TableType, said: Section | None) -> TableType:
    """A table with what another says laid over it, table by table; one of another class replaces it whole."""
    if said is None:
        return base
    if type(said) is not type(base):
        return said  # type: ignore[return-value] # whoever compares the two refuses it
    update = {}
    for key in said.model_fields_set:
        ours, theirs = getattr(said, key), getattr(base, key)
        update[key] = merge_tables(theirs, ours) if isinstance(ours, Section) and isinstance(theirs, Section) else ours
    return base.model_copy(update=update)
