"""Axes: from values to coordinates, linear or logarithmic, with ticks at round numbers."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from heedful.pages.charts.drawing import label, paint, shape, text_width


@dataclass(frozen=True)
class Axis:
    """The range of values between two coordinates."""

    low: float
    high: float
    start: float  # coordinate of `low`
    end: float  # coordinate of `high`
    log: bool = False

    @classmethod
    def over(
        cls, values: Iterable[float], start: float, end: float, *, log: bool = False, round_out: bool = False
    ) -> "Axis":
        """Make an axis over all values that it can show; `round_out` extends it to the next ticks."""
        shown = [value for value in values if drawable(value, log)]
        low, high = (min(shown), max(shown)) if shown else (1.0, 10.0) if log else (0.0, 1.0)
        if low == high:
            gap = abs(low) / 2 or 0.5
            low, high = (low / 2, high * 2) if log else (low - gap, high + gap)
        if round_out and log:
            low, high = (
                10.0 ** math.floor(math.log10(low) + 1e-9) if low > 1e-300 else low,
                10.0 ** math.ceil(math.log10(high) - 1e-9) if high < 1e300 else high,
            )
        elif round_out:
            step = _round_step(low, high)
            low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
        return cls(low, high, start, end, log)

    def at(self, value: float) -> float:
        """Return the coordinate of a value."""
        low, high, value = map(math.log10, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return self.start + (self.end - self.start) * (value - low) / (high - low)

    def shows(self, value: float) -> bool:
        """Whether a value can be drawn; outside the range it can, and is cut off."""
        return drawable(value, self.log)

    def ticks(self) -> list[float]:
        """Return round values within the range: about six, or powers of ten."""
        slack = (self.high - self.low) * 1e-9
        if self.log and self.high / self.low >= 900:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            step = max(1, math.ceil((last - first) / 7))
            return [10.0**power for power in range(first, last + 1, step)]
        if self.log and self.high / self.low >= 4:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            round_values = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
            return [value for value in round_values if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)]
        stride = _round_step(self.low, self.high)
        first = math.ceil(self.low / stride - 1e-9)
        found = []
        for index in range(first, first + 20):
            if index * stride > self.high + slack:
                break
            found.append(float(f"{index * stride:.12g}"))
        return found


def drawable(value: float, log: bool = False) -> bool:
    """Whether an axis can show a value: a finite one, above 0 where the axis is logarithmic."""
    return math.isfinite(value) and (value > 0 or not log)


def tick_label(value: float) -> str:
    """Return a number as a tick shows it: 0.05, 1,000, 2.5M, 1e-7."""
    if value == 0:
        return "0"
    if abs(value) >= 1e12 or abs(value) < 1e-4:
        mantissa, power = f"{value:.3e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    for unit, letter in ((1e9, "B"), (1e6, "M")):
        if abs(value) >= unit:
            return f"{value / unit:.6g}{letter}"
    if abs(value) >= 1000:
        return f"{value:,.10g}"
    return f"{value:.6g}"


def x_axis(axis: Axis, y: float, name: str) -> str:
    """Return the axis along the bottom of a chart: its line, ticks and name."""
    ticks = [(axis.at(value), tick_label(value)) for value in axis.ticks()]
    marks = "".join(shape("line", x1=x, y1=y, x2=x, y2=y + 4) for x, _ in ticks)
    texts = "".join(label(x, y + 18, said, anchor="middle", role="soft", size=12) for x, said in ticks)
    line = shape("line", x1=axis.start, y1=y, x2=axis.end, y2=y)
    named = label((axis.start + axis.end) / 2, y + 38, name, anchor="middle", role="soft", size=12) if name else ""
    return f"<g {paint('faint', 'stroke')}>{line}{marks}</g>{texts}{named}"


def y_axis(axis: Axis, x: float, right: float, name: str) -> str:
    """Return the axis along the left of a chart, with a faint line across at every tick."""
    ticks = [(axis.at(value), tick_label(value)) for value in axis.ticks()]
    lines = "".join(shape("line", x1=x, y1=y, x2=right, y2=y) for y, _ in ticks)
    texts = "".join(label(x - 8, y + 4, said, anchor="end", role="soft", size=12) for y, said in ticks)
    return f"<g {paint('rule', 'stroke')}>{lines}</g>{texts}{upright((axis.start + axis.end) / 2, name)}"


def upright(middle: float, name: str) -> str:
    """Return the name of an axis along the left of an image, written upwards; nothing where it has none."""
    turn = f' transform="rotate(-90 16 {middle:.1f})"'
    return label(16, middle, name, anchor="middle", role="soft", size=12, more=turn) if name else ""


def left_of(axis: Axis, name: str) -> float:
    """Return where a chart begins, right of the name and the ticks of its axis along the left."""
    return 20 + (20 if name else 0) + max((text_width(tick_label(tick), 12) for tick in axis.ticks()), default=20)


def no_values(left: float, right: float, top: float, bottom: float) -> str:
    """Say in the middle of a chart that there is nothing to draw."""
    return label((left + right) / 2, (top + bottom) / 2, "no values", anchor="middle", role="faint")


def _round_step(low: float, high: float) -> float:
    """Return the step of about six ticks: 1, 2 or 5 times a power of ten."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if rough <= factor * power * (1 + 1e-9))
