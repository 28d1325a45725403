"""Bar charts, histograms, and charts of estimates with their intervals."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from heedful.pages.charts.axes import Axis, drawable, tick_label, x_axis, y_axis
from heedful.pages.charts.drawing import (
    draw_legend,
    escape,
    heading,
    image,
    label,
    number,
    paint,
    series_role,
    text_width,
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
    left = 20 + (20 if y_label else 0) + max((text_width(tick_label(tick), 12) for tick in y.ticks()), default=20)
    slot = (right - left) / max(len(names), 1)
    wide = min(0.8 * slot / max(len(table), 1), 64.0)
    zero = y.at(y.low if log_y else 0.0)
    parts = [heading(title), *legend, y_axis(y, left, right, y_label)]
    for order, (group, bars) in enumerate(table.items()):
        for index, name in enumerate(names):
            x = left + (index + 0.5) * slot + (order - len(table) / 2) * wide
            interval = (intervals or {}).get(group, {}).get(name)
            if name in bars:
                parts += _bar((x, wide), bars[name], (y, zero), (group, name, order), interval)
    parts += _below(names, left, slot, bottom, slanted)
    base = f'x1="{number(left)}" y1="{number(zero)}" x2="{number(right)}" y2="{number(zero)}"'
    parts.append(f"<line {base} {paint('faint', 'stroke')}/>")
    if x_label:
        parts.append(label((left + right) / 2, height - 10, x_label, anchor="middle", role="soft", size=12))
    if not any(drawable(value, log_y) for value in values):
        parts.append(label((left + right) / 2, (below + bottom) / 2, "no values", anchor="middle", role="faint"))
    said = [f"{group}, {name}" if group else name for group, bars in table.items() for name in bars]
    listed = "; ".join(f"{name}: {value:.4g}" for name, value in zip(said, values, strict=True))
    return image(width, height, title or "Bars", parts, description or listed or "No values.")


def histogram(
    values: Sequence[float],
    *,
    title: str,
    x_label: str = "",
    y_label: str = "number",
    bins: int = 30,
    description: str = "",
    width: float = 720,
    height: float = 320,
) -> str:
    """Return how often values occur, as SVG: `bins` intervals of one width. Values that are not finite are left out."""
    finite = [float(value) for value in values if math.isfinite(value)]
    edges, counts = bin_counts(finite, bins)
    bottom, right = height - (52 if x_label else 32), width - 20
    y = Axis.over([0.0, *map(float, counts)], bottom, 48, round_out=True)
    left = 40 + max(text_width(tick_label(tick), 12) for tick in y.ticks())
    x = Axis(edges[0], edges[-1], left, right)
    shapes = []
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        if count:
            box = (x.at(low), y.at(count), x.at(high) - x.at(low), bottom - y.at(count))
            place = 'x="{}" y="{}" width="{}" height="{}"'.format(*map(number, box))
            shapes.append(f"<rect {place}><title>{low:.4g} to {high:.4g}: {count:,}</title></rect>")
    bars = f'<g stroke="#fcfcfb" stroke-width="0.5" {paint("series-1")}>{"".join(shapes)}</g>'
    if not finite:
        bars = label((left + right) / 2, (48 + bottom) / 2, "no values", anchor="middle", role="faint")
    parts = [heading(title), y_axis(y, left, right, y_label), bars, x_axis(x, bottom, x_label)]
    spread = f"{len(finite):,} values from {min(finite):.4g} to {max(finite):.4g}." if finite else "No values."
    return image(width, height, title or "Histogram", parts, description or spread)


def bin_counts(values: Sequence[float], bins: int) -> tuple[list[float], list[int]]:
    """Return the edges of intervals of one width over the values, and the number of values in each."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = [0] * bins
    for value in values:
        counts[min(int((value - low) / (high - low) * bins), bins - 1)] += 1
    return [low + (high - low) * index / bins for index in range(bins)] + [high], counts


def _bar(
    place: tuple[float, float],
    value: float,
    scale: tuple[Axis, float],
    named: tuple[str, str, int],
    interval: Interval | None,
) -> Iterator[str]:
    """Yield a bar between 0 and its value, and its interval; nothing where the value cannot be drawn."""
    (x, wide), (axis, zero), (group, name, order) = place, scale, named
    if not axis.shows(value):
        return
    top, bottom = sorted((axis.at(value), zero))
    said = escape(f"{group}, {name}: {value:.6g}" if group else f"{name}: {value:.6g}")
    yield (
        f'<rect x="{number(x)}" y="{number(top)}" width="{number(max(wide - 2, 1))}" height="{number(bottom - top)}" '
        f"{paint(series_role(order))}><title>{said}</title></rect>"
    )
    if interval and all(map(axis.shows, interval)):
        low, high, middle = number(axis.at(interval[0])), number(axis.at(interval[1])), x + max(wide - 2, 1) / 2
        left, centre, right = number(middle - 5), number(middle), number(middle + 5)
        line = f"M{left},{low}H{right}M{left},{high}H{right}M{centre},{low}V{high}"
        yield f'<path d="{line}" fill="none" stroke-width="1.5" {paint("ink", "stroke")}/>'


def _below(names: Sequence[str], left: float, slot: float, bottom: float, slanted: bool) -> Iterator[str]:
    for index, name in enumerate(names):
        x = left + (index + 0.5) * slot
        if slanted:
            turn = f' transform="rotate(-35 {number(x)} {number(bottom + 16)})"'
            yield label(x, bottom + 16, name, anchor="end", role="soft", size=12, more=turn)
        else:
            yield label(x, bottom + 18, name, anchor="middle", role="soft", size=12)


def _sample(index: int, x: float, y: float) -> str:
    """Return a small bar, for the legend."""
    return f'<rect x="{number(x + 5)}" y="{number(y - 10)}" width="13" height="11" {paint(series_role(index))}/>'


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
    zero = f'x1="{number(axis.at(0))}" y1="{number(top)}" x2="{number(axis.at(0))}" y2="{number(bottom)}"'
    parts = [heading(title), f"<line {zero} {paint('faint', 'stroke')}/>", *rows, x_axis(axis, bottom, x_label)]
    said = "; ".join(_told(name, value, lines.get(name)) for name, value in values.items())
    return image(width, bottom + (52 if x_label else 32), title or "Intervals", parts, description or said)


def _row(axis: Axis, named: tuple[str, float], interval: Interval | None, y: float, filled: bool) -> Iterator[str]:
    """Yield a name, the line of its interval, and its dot."""
    (name, value), place = named, number(y)
    yield label(axis.start - 10, y, name, anchor="end", more=' dominant-baseline="central"')
    yield (
        f'<line x1="{number(axis.start)}" y1="{place}" x2="{number(axis.end)}" y2="{place}" {paint("rule", "stroke")}/>'
    )
    if not axis.shows(value):
        return
    if interval and all(map(axis.shows, interval)):
        low, high = number(axis.at(interval[0])), number(axis.at(interval[1]))
        ends = "".join(f"M{x},{number(y - 5)}V{number(y + 5)}" for x in (low, high))
        yield f'<path d="M{low},{place}H{high}{ends}" fill="none" stroke-width="2" {paint("series-1", "stroke")}/>'
    inner = "series-1" if filled else "paper"
    yield (
        f'<g stroke-width="2" {paint("series-1", "stroke")}><circle cx="{number(axis.at(value))}" cy="{place}" r="5" '
        f"{paint(inner)}><title>{escape(_told(name, value, interval))}</title></circle></g>"
    )


def _told(name: str, value: float, interval: Interval | None) -> str:
    return f"{name}: {value:.4g}" + (f" [{interval[0]:.4g}, {interval[1]:.4g}]" if interval else "")
