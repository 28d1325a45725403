"""Scheduled sampling: how often a decoder in training is given the true previous token instead of one it predicted.

Bengio et al. 2015, 2.4: the true token is used with probability epsilon(i), which decays from 1 as training proceeds.
i is the number of completed updates.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from heedful.config.train.schedules import AnyDecay


class Decay(Protocol):
    """The probability of the true token as a pure function of the step, so that a resumed run needs no state."""

    def __call__(self, step: int) -> float:
        """Return the probability after this number of updates."""
        ...


@dataclass(frozen=True)
class LinearDecay:
    """epsilon(i) = min(1, max(floor, offset - slope * i)): with an offset above 1 the decay starts later"""

    slope: float
    offset: float = 1.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not self.slope > 0:
            raise ValueError(f"linear decay has a slope of {self.slope:g}; it must be above 0")
        if not 0 <= self.floor < 1:
            raise ValueError(f"linear decay has a floor of {self.floor:g}; it must be at least 0 and below 1")

    def __call__(self, step: int) -> float:
        """Return the probability after this number of updates."""
        return min(1.0, max(self.floor, self.offset - self.slope * step))


@dataclass(frozen=True)
class ExponentialDecay:
    """epsilon(i) = base^i"""

    base: float

    def __post_init__(self) -> None:
        if not 0 < self.base < 1:
            raise ValueError(f"exponential decay has a base of {self.base:g}; it must be between 0 and 1")

    def __call__(self, step: int) -> float:
        """Return the probability after this number of updates."""
        return float(self.base**step)


@dataclass(frozen=True)
class InverseSigmoidDecay:
    """epsilon(i) = span / (span + exp(i / span)): one half at span * log(span)"""

    span: float

    def __post_init__(self) -> None:
        if not self.span >= 1:
            raise ValueError(f"inverse sigmoid decay has a span of {self.span:g}; it must be at least 1")

    def __call__(self, step: int) -> float:
        """Return the probability after this number of updates."""
        # Numerator and denominator are divided by exp(i / span), which would overflow.
        falling = self.span * math.exp(-step / self.span)
        return falling / (falling + 1)


def build_decay(section: AnyDecay) -> Decay:
    """Build the decay that a recipe names; the schema checks its bounds."""
    return DECAYS[section.kind](**section.model_dump(exclude={"kind"}))


DECAYS: Final[Mapping[str, type[LinearDecay | ExponentialDecay | InverseSigmoidDecay]]] = {
    "linear": LinearDecay,
    "exponential": ExponentialDecay,
    "inverse_sigmoid": InverseSigmoidDecay,
}
