"""Learning rates as pure functions of the step, so that a resumed run needs no state."""

import math
from collections.abc import Callable
from typing import assert_never

from heedful.config.train.optimizers import AnyOptimizer
from heedful.config.train.schedules import (
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


def _warm(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


def _progress(step: int, warmup: int, steps: int) -> float:
    """Return the progress of the decay: 0 at the end of the warm-up, 1 at the last step."""
    return min(1.0, max(0.0, (step - warmup) / max(1, steps - warmup)))
