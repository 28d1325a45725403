"""Bar charts, histograms, and charts of estimates with their intervals."""

from collections.abc import Collection, Iterator, Mapping

from heedful.pages.charts.axes import Axis, drawable, left_of, no_values, x_axis, y_axis
from heedful.pages.charts.drawing import (
    draw_legend,
    heading,
    image,
    label,
    number,
    paint,
    series_role,
    shape,
    text_width,
    tip,
)

Interval = tuple[float, float]


def bar_chart(
    groups: Mapping[str, Mapping[str, float]] | Mapping[str, float],
    *,
    title: str,
    y_label: str = "",
    x_label: str = "",
    log_y: bool = False,
    intervals: Mapping[str, Mapping[str, Interval]] | None = None,
    description: str = "",
    width: float = 720,
    height: float = 360,
) -> str:
    """Return bars as SVG: one per name, or one per name and group, as in {"ours": {"short": 3, "long": 2}, ...}.

    `intervals` has the lower and upper end of a line over a bar, by group and name. Without groups, their name is "".
    """
    nested = {name: dict(bars) for name, bars in groups.items() if isinstance(bars, Mapping)}
    table = nested or {"": {name: float(bar) for name, bar in groups.items() if not isinstance(bar, Mapping)}}
    names = list(dict.fromkeys(name for bars in table.values() for name in bars))
    ends = [edge for bars in (intervals or {}).values() for pair in bars.values() for edge in pair]
    values = [value for bars in table.values() for value in bars.values()]
    legend, below = draw_legend(list(table), width, _sample)
    slanted = any(text_width(name, 12) > (width - 80) / max(len(names), 1) - 6 for name in names)
    room = (0.6 * max(map(text_width, names), default=0) + 14 if slanted else 24) + (20 if x_label else 0)
    bottom, right = height - 10 - room, width - 20
    y = Axis.over([*values, *ends, *([] if log_y else [0.0])], bottom, below, log=log_y, round_out=True)
    left = left_of(y, y_label)
    slot = (right - left) / max(len(names), 1)
    wide = min(0.8 * slot / max(len(table), 1), 64.0)
    zero = y.at(y.low if log_y else 0.0)
    parts = [heading(title), *legend, y_axis(y, left, right, y_label)]
    for order, (group, bars) in enumerate(table.items()):
        for index, name in enumerate(names):
            x = left + (index + 0.5) * slot + (order - len(table) / 2) * wide
            if name in bars and y.shows(bars[name]):
                top, end = sorted((y.at(bars[name]), zero))
                told = tip(f"{group}, {name}: {bars[name]:.6g}" if group else f"{name}: {bars[name]:.6g}")
                size = {"width": max(wide - 2, 1), "height": end - top}
                parts.append(shape("rect", paint(series_role(order)), told, x=x, y=top, **size))
                parts += _whiskers(x + size["width"] / 2, y, (intervals or {}).get(group, {}).get(name))
    for index, name in enumerate(names):
        x, y_of, anchor = left + (index + 0.5) * slot, bottom + (16 if slanted else 18), "end" if slanted else "middle"
        turn = f' transform="rotate(-35 {number(x)} {number(y_of)})"' if slanted else ""
        parts.append(label(x, y_of, name, anchor=anchor, role="soft", size=12, more=turn))
    parts.append(shape("line", paint("faint", "stroke"), x1=left, y1=zero, x2=right, y2=zero))
    if x_label:
        parts.append(label((left + right) / 2, height - 10, x_label, anchor="middle", role="soft", size=12))
    if not any(drawable(value, log_y) for value in values):
        parts.append(no_values(left, right, below, bottom))
    said = [f"{group}, {name}" if group else name for group, bars in table.items() for name in bars]
    listed = "; ".join(f"{name}: {value:.4g}" for name, value in zip(said, values, strict=True))
    return image(width, height, title or "Bars", parts, description or listed or "No values.")


def _whiskers(x: float, axis: Axis, interval: Interval | None) -> Iterator[str]:
    """Yield the line of an interval over the middle of a bar."""
    if interval and all(map(axis.shows, interval)):
        low, high = number(axis.at(interval[0])), number(axis.at(interval[1]))
        left, centre, right = number(x - 5), number(x), number(x + 5)
        line = f"M{left},{low}H{right}M{left},{high}H{right}M{centre},{low}V{high}"
        yield f'<path d="{line}" fill="none" stroke-width="1.5" {paint("ink", "stroke")}/>'


def _sample(index: int, x: float, y: float) -> str:
    """Return a small bar, for the legend."""
    return shape("rect", paint(series_role(index)), x=x + 5, y=y - 10, width=13, height=11)


# --- charts of estimates: a row for each, with its value as a dot and its interval as a line --------------------------


_ROW = 27.0


def interval_chart(
    values: Mapping[str, float],
    *,
    title: str,
    intervals: Mapping[str, Interval] | None = None,
    filled: Collection[str] = (),
    x_label: str = "",
    description: str = "",
    width: float = 720,
) -> str:
    """Return values with their intervals as SVG, a row for each name, with a line at 0; dots not in `filled` are rings.

    Values that are not finite leave their rows empty.
    """
    lines = intervals or {}
    top, left = 44.0, 24 + max(map(text_width, values), default=20)
    bottom, right = top + _ROW * len(values) + 4, width - 24
    ends = [end for pair in lines.values() for end in pair]
    axis = Axis.over([0.0, *values.values(), *ends], left, right, round_out=True)
    rows = [
        part
        for index, (name, value) in enumerate(values.items())
        for part in _row(axis, (name, value), lines.get(name), top + (index + 0.5) * _ROW, name in filled)
    ]
    zero = shape("line", paint("faint", "stroke"), x1=axis.at(0), y1=top, x2=axis.at(0), y2=bottom)
    parts = [heading(title), zero, *rows, x_axis(axis, bottom, x_label)]
    said = "; ".join(_told(name, value, lines.get(name)) for name, value in values.items())
    return image(width, bottom + (52 if x_label else 32), title or "Intervals", parts, description or said)


def _row(axis: Axis, named: tuple[str, float], interval: Interval | None, y: float, filled: bool) -> Iterator[str]:
    """Yield a name, the line of its interval, and its dot."""
    (name, value), place = named, number(y)
    yield label(axis.start - 10, y, name, anchor="end", more=' dominant-baseline="central"')
    yield shape("line", paint("rule", "stroke"), x1=axis.start, y1=y, x2=axis.end, y2=y)
    if not axis.shows(value):
        return
    if interval and all(map(axis.shows, interval)):
        low, high = number(axis.at(interval[0])), number(axis.at(interval[1]))
        ends = "".join(f"M{x},{number(y - 5)}V{number(y + 5)}" for x in (low, high))
        yield f'<path d="M{low},{place}H{high}{ends}" fill="none" stroke-width="2" {paint("series-1", "stroke")}/>'
    inner, told = paint("series-1" if filled else "paper"), tip(_told(name, value, interval))
    dot = shape("circle", inner, told, cx=axis.at(value), cy=y, r=5)
    yield f'<g stroke-width="2" {paint("series-1", "stroke")}>{dot}</g>'


def _told(name: str, value: float, interval: Interval | None) -> str:
    return f"{name}: {value:.4g}" + (f" [{interval[0]:.4g}, {interval[1]:.4g}]" if interval else "")
