"""Pools of models that read one sequence: a name, or a table of attention with a learned query."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Tag, model_validator

from heedful.config.model.attention import FIXED_LENGTH, AlignmentName, Weighting

PoolName = Literal["first", "mean", "max", "last", "attention", "multi_dimensional"]


class AttentionPoolTable(Weighting):
    """A pool that attends: an alignment scores each token for one learned query, a distribution weights them by it."""

    alignment: AlignmentName = "additive"
    """Function from the query and a token to a score."""

    @model_validator(mode="after")
    def _fits_one_query(self) -> Self:
        if self.alignment in FIXED_LENGTH:
            raise ValueError(
                f'`alignment = "{self.alignment}"` scores positions whatever their tokens are, and a pool has one '
                "query for all texts: choose another alignment"
            )
        self.check_weighting(self.alignment)
        return self


def _form(value: Any) -> str:
    return "table" if isinstance(value, dict | AttentionPoolTable) else "name"


AnyPool = Annotated[
    Annotated[PoolName, Tag("name")] | Annotated[AttentionPoolTable, Tag("table")], Discriminator(_form)
]
