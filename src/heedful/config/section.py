"""What every table of a recipe is, and the values that several tables share."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A table of a recipe: unknown keys are errors, `true` is no number and "6" neither, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, strict=True, allow_inf_nan=False)
