"""Learning rates as pure functions of the step, so that a resumed run needs no state."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from heedful.config.train.optimizers import AnyOptimizer, RAdam
from heedful.config.train.schedules import (
    AnyDecay,
    AnySchedule,
    AnyWarmup,
    Constant,
    Cosine,
    ExponentialWarmup,
    InverseSqrt,
    Linear,
    LinearWarmup,
    Noam,
    UntunedExponentialWarmup,
    UntunedLinearWarmup,
    Wait,
)


def build_learning_rate(schedule: AnySchedule, width: int, steps: int) -> Callable[[int], float]:
    """Return the learning rate as a function of the update, 1 to `steps`, for a model of this width.

    The equations are in the schema.
    """
    match schedule:
        case Noam(factor=factor, warmup=warmup):
            return lambda step: factor * width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        case InverseSqrt(lr=peak, warmup=warmup):
            return lambda step: peak * min(step / warmup, (warmup / step) ** 0.5)
        case Linear(lr=peak, warmup=warmup, floor=floor):
            return lambda step: peak * _warm(step, warmup) * (1 - (1 - floor) * _progress(step, warmup, steps))
        case Cosine(lr=peak, warmup=warmup, floor=floor, span=span):
            start = warmup if span == "after_warmup" else 0
            return lambda step: (
                peak
                * _warm(step, warmup)
                * (floor + (1 - floor) * (1 + math.cos(math.pi * _progress(step, start, steps))) / 2)
            )
        case Constant(lr=peak, warmup=warmup):
            return lambda step: peak * _warm(step, warmup)
        case _:
            assert_never(schedule)


def build_warmup(warmup: AnyWarmup | None, optimizer: AnyOptimizer) -> Callable[[int], float]:
    """Return the factor of the learning rate as a function of the update; 1 without a warm-up."""
    beta2 = getattr(optimizer, "beta2", 0.0)
    match warmup:
        case None:
            return lambda step: 1.0
        case LinearWarmup(steps=steps):
            return lambda step: min(1.0, step / steps)
        case ExponentialWarmup(steps=steps):
            return lambda step: 1 - math.exp(-step / steps)
        case UntunedLinearWarmup():
            return lambda step: min(1.0, step * (1 - beta2) / 2)
        case UntunedExponentialWarmup():
            return lambda step: 1 - math.exp(-step * (1 - beta2))
        case Wait(steps=steps):
            return lambda step: float(step > steps)
        case _:
            assert_never(warmup)


def build_run_rate(
    schedule: AnySchedule, warmup: AnyWarmup | None, optimizer: AnyOptimizer, width: int, steps: int
) -> Callable[[int], float]:
    """Return the learning rate of a run: its schedule, times the warm-up of its optimizer."""
    base, factor = build_learning_rate(schedule, width, steps), build_warmup(warmup, optimizer)
    return lambda step: base(step) * factor(step)


def rectification(beta2: float) -> Callable[[int], float]:
    """Return the factor of RAdam's adaptive step as a function of the update      Liu et al. 2020, algorithm 2

    r_t = sqrt((p_t - 4)(p_t - 2) p / ((p - 4)(p - 2) p_t)), where p = 2 / (1 - beta2) - 1 and
    p_t = p - 2 t beta2^t / (1 - beta2^t)

    It is 0 up to p_t = 5, as in PyTorch, where steps follow the momentum alone and do not divide by the variance.
    """
    longest = 2 / (1 - beta2) - 1

    def factor(step: int) -> float:
        length = longest - 2 * step * beta2**step / (1 - beta2**step)
        if length <= 5:
            return 0.0
        top, bottom = (length - 4) * (length - 2) * longest, (longest - 4) * (longest - 2) * length
        return math.sqrt(top / bottom)

    return factor


def build_drawn_rate(
    schedule: AnySchedule, warmup: AnyWarmup | None, optimizer: AnyOptimizer, width: int, steps: int
) -> Callable[[int], float]:
    """Return the learning rate of a run as it takes effect: that of RAdam, which corrects its steps, is rectified."""
    rate = build_run_rate(schedule, warmup, optimizer, width, steps)
    if not isinstance(optimizer, RAdam):
        return rate
    factor = rectification(optimizer.beta2)
    return lambda step: rate(step) * factor(step)


def _warm(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


def _progress(step: int, warmup: int, steps: int) -> float:
    """Return the progress of the decay: 0 at the end of the warm-up, 1 at the last step."""
    return min(1.0, max(0.0, (step - warmup) / max(1, steps - warmup)))


# --- scheduled sampling: how often a decoder in training is given the true previous token, not one it predicted -------
#
# Bengio et al. 2015, 2.4: the true token is used with probability epsilon(i), which decays from 1 as training proceeds.
# i is the number of completed updates.


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


def build_decay(section: AnyDecay) -> Callable[[int], float]:
    """Build the decay that a recipe names; the schema checks its bounds."""
    return DECAYS[section.kind](**section.model_dump(exclude={"kind"}))


DECAYS: Final[Mapping[str, type[LinearDecay | ExponentialDecay | InverseSigmoidDecay]]] = {
    "linear": LinearDecay,
    "exponential": ExponentialDecay,
    "inverse_sigmoid": InverseSigmoidDecay,
}
