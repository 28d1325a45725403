"""The keys of [train.instruments]: what a run measures of its layers while it trains."""

from typing import Annotated

from pydantic import BeforeValidator, Field, PositiveInt

from heedful.config.section import Section, as_tuple


class Instruments(Section):
    """What a run measures of its layers, recorded in `instruments.jsonl`; training does not change."""

    every: PositiveInt = 100
    """Number of updates between measurements."""
    at: Annotated[tuple[Annotated[int, Field(ge=1, le=10**12)], ...], BeforeValidator(as_tuple)] = Field(
        default=(), examples=[[1, 2, 5, 10]]
    )
    """Further updates to measure, such as the first ones: [1, 2, 5, 10]."""
    histograms: bool = True
    """Whether histograms of the optimizer's steps are recorded, by the logarithm of each weight's change."""
    probe: bool = True
    """Whether a small batch shows the entropy of attention heads, and random inputs how far back recurrence learns."""
