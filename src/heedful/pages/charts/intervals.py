"""Charts of estimates: a row for each, with its value as a dot and its interval as a line."""

from collections.abc import Collection, Iterator, Mapping

from heedful.pages.charts.axes import Axis, x_axis
from heedful.pages.charts.bars import Interval
from heedful.pages.charts.drawing import escape, heading, image, label, number, paint, text_width

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
