"""Scores of an evaluation: what a person reads, what is recorded, and what has a mean over several models."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Score:
    """One figure of an evaluation."""

    name: str  # in records and JSON
    label: str  # for a person
    value: float
    unit: Literal["number", "percent", "loss"] = "number"  # percent: of a share between 0 and 1
    note: str = ""  # what stands after the value, such as a signature

    def show(self, value: float | None = None) -> str:
        """The value as a person reads it, or another one of the same unit."""
        shown = self.value if value is None else value
        match self.unit:
            case "percent":
                return f"{100 * shown:.2f}%"
            case "loss":
                return f"{shown:.4f}"
            case "number":
                return f"{shown:.2f}"


def finite_scores(scores: Sequence[Score]) -> dict[str, float | None]:
    """Values by name, as JSON can hold them: None where one is infinite or not a number."""
    return {score.name: score.value if math.isfinite(score.value) else None for score in scores}
