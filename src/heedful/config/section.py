"""What every table of a recipe is, and the values that several tables share."""

from typing import Annotated, Final, Self

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
