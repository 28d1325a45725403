"""The classification of a text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Classification:
    """The classification of a text; empty for a blank one."""

    labels: tuple[str, ...]  # one label, or any number if the model has several labels, the most likely first
    probabilities: Mapping[str, float]  # probability of every class; they sum to one if a text has one label

    @property
    def label(self) -> str:
        """Most likely label; an empty name where there is none."""
        return self.labels[0] if self.labels else ""


BLANK: Final = Classification((), {})
