"""The classification of a text or an image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float
from torch import Tensor

from heedful.metrics.classification import class_probabilities, decide_classes


@dataclass(frozen=True)
class Classification:
    """The classification of a text or an image; empty for a blank text, and for an image that cannot be read."""

    labels: tuple[str, ...]  # one label, or any number if the model has several labels, the most likely first
    probabilities: Mapping[str, float]  # probability of every class; they sum to one if a text has one label

    @property
    def label(self) -> str:
        """Most likely label; an empty name where there is none."""
        return self.labels[0] if self.labels else ""


BLANK: Final = Classification((), {})


def classifications(scores_BC: Float[Tensor, "B C"], labels: Sequence[str], several: bool) -> list[Classification]:
    """Turn scores of these classes into classifications; `several` says whether more than one may apply."""
    shares = class_probabilities(scores_BC, several).tolist()
    found = []
    for row, said in zip(shares, decide_classes(scores_BC, several), strict=True):
        most_likely_first = sorted(np.flatnonzero(said).tolist(), key=row.__getitem__, reverse=True)
        chosen = tuple(labels[index] for index in most_likely_first)
        found.append(Classification(chosen, dict(zip(labels, row, strict=True))))
    return found
