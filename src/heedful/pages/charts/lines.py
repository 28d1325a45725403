"""Line charts: several series over one axis, with bands around them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

from heedful.pages.charts.axes import Axis, left_of, no_values, x_axis, y_axis
from heedful.pages.charts.drawing import (
    dashes,
    draw_legend,
    heading,
    image,
    number,
    paint,
    path_of,
    series_role,
    shape,
    tip,
)

_MARKED: Final = 40  # points of a series that are marked one by one


@dataclass(frozen=True)
class Series:
    """A curve: its name in the legend, and its points in the order of x. Values that are not finite leave a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int | None = None  # index of a colour, to share it with another series; by default one of its own


@dataclass(frozen=True)
class Band:
    """An area between two curves, such as a mean's interval, in the colour of the series with its name."""

    name: str
    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


class _Frame(NamedTuple):
    """The axes of a chart, within its margins."""

    x: Axis
    y: Axis


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str = "",
    y_label: str = "",
    log_x: bool = False,
    log_y: bool = False,
    bands: Sequence[Band] = (),
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    description: str = "",
    width: float = 720,
    height: float = 360,
) -> str:
    """Return a chart of curves as SVG. What a range or a logarithm cannot show is left out."""
    roles = [series_role(index if one.colour is None else one.colour) for index, one in enumerate(series)]
    legend, below = draw_legend([one.name for one in series], width, partial(_sample, roles))
    y_values = [*(y for one in series for y in one.y), *(y for band in bands for y in (*band.low, *band.high))]
    bottom, right = height - (52 if x_label else 32), width - 20
    y = Axis.over(y_range or y_values, bottom, below, log=log_y, round_out=y_range is None)
    left = left_of(y, y_label)
    x_values = [x for one in series for x in one.x] + [x for band in bands for x in band.x]
    x = Axis.over(x_range or x_values, left, right, log=log_x)
    frame = _Frame(x, y)
    named = dict(zip((one.name for one in series), roles, strict=True))
    inner = "".join(_band(band, frame, named.get(band.name, series_role(0))) for band in bands)
    inner += "".join(_curve(one, frame, roles[index], index) for index, one in enumerate(series))
    if x_range or y_range:
        box = f"{number(left)} {number(below)} {number(right - left)} {number(bottom - below)}"
        size = {"width": right - left, "height": bottom - below}
        inner = shape("svg", f'viewBox="{box}"', inner, x=left, y=below, **size)
    if not any(x.shows(a) and y.shows(b) for one in series for a, b in zip(one.x, one.y, strict=True)):
        inner += no_values(left, right, below, bottom)
    scale = (
        f"{x.low:.17g} {x.high:.17g} {number(left)} {number(right)}{' log' if log_x else ''}"  # for scripts of pages
    )
    inner = f'<g class="plot" data-x="{scale}" data-y="{number(below)} {number(bottom)}">{inner}</g>'
    parts = [heading(title), *legend, y_axis(y, left, right, y_label), x_axis(x, bottom, x_label), inner]
    return image(width, height, title or "Chart", parts, description or _describe(series, x_label, y_label))


def _sample(roles: Sequence[str], index: int, x: float, y: float) -> str:
    """Return a piece of a curve, for the legend."""
    look = f'stroke-width="2.5"{dashes(index)} {paint(roles[index], "stroke")}'
    return shape("line", look, x1=x, y1=y - 4, x2=x + 20, y2=y - 4)


def _curve(one: Series, frame: _Frame, role: str, index: int) -> str:
    drawn = []
    for run in _runs(one, frame):
        alone = shape("circle", paint(role), cx=run[0][0], cy=run[0][1], r=2.5)
        drawn.append(f'<polyline points="{path_of(_thinned(run))}"/>' if len(run) > 1 else alone)
    marks = "".join(_marks(one, frame, role)) if len(one.x) <= _MARKED else ""
    return (
        f'<g fill="none" stroke-width="2" stroke-linejoin="round"{dashes(index)} {paint(role, "stroke")}>'
        f"{tip(one.name)}{''.join(drawn)}</g>{marks}"
    )


def _marks(one: Series, frame: _Frame, role: str) -> Iterator[str]:
    for x, y in zip(one.x, one.y, strict=True):
        if frame.x.shows(x) and frame.y.shows(y):
            named = f"{one.name}: {x:.6g}, {y:.6g}" if one.name else f"{x:.6g}, {y:.6g}"
            yield shape("circle", paint(role), tip(named), cx=frame.x.at(x), cy=frame.y.at(y), r=3)


def _runs(one: Series, frame: _Frame) -> Iterator[list[tuple[float, float]]]:
    """Yield the coordinates of each stretch of a curve without a gap."""
    pairs = zip(one.x, one.y, strict=True)
    for shown, group in groupby(pairs, key=lambda pair: frame.x.shows(pair[0]) and frame.y.shows(pair[1])):
        if shown:
            yield [(frame.x.at(x), frame.y.at(y)) for x, y in group]


def _thinned(run: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points of a curve that a screen can show: of each column of pixels the ends and the extremes."""
    if len(run) <= 2000:
        return run
    found = []
    for _, group in groupby(enumerate(run), key=lambda point: int(point[1][0])):
        column = list(group)
        keep = {column[0], column[-1], min(column, key=lambda p: p[1][1]), max(column, key=lambda p: p[1][1])}
        found += [point for _, point in sorted(keep)]
    return found


def _band(band: Band, frame: _Frame, role: str) -> str:
    triples = zip(band.x, band.low, band.high, strict=True)
    shapes = []
    for shown, group in groupby(triples, key=lambda t: frame.x.shows(t[0]) and all(map(frame.y.shows, t[1:]))):
        if shown:
            points = list(group)
            there = [(frame.x.at(x), frame.y.at(high)) for x, _, high in points]
            back = [(frame.x.at(x), frame.y.at(low)) for x, low, _ in reversed(points)]
            shapes.append(f'<polygon points="{path_of([*_thinned(there), *_thinned(back)])}"/>')
    return f'<g fill-opacity="0.18" {paint(role)}>{"".join(shapes)}</g>'


def _describe(series: Sequence[Series], x_label: str, y_label: str) -> str:
    """Say in words what a chart shows, for those who cannot see it."""
    said = []
    for one in series:
        shown = [(x, y) for x, y in zip(one.x, one.y, strict=True) if Axis(0, 1, 0, 1).shows(y)]
        if shown:
            (x0, y0), (x1, y1) = shown[0], shown[-1]
            said.append(f"{one.name or 'Curve'}: {y0:.4g} at {x0:.6g} to {y1:.4g} at {x1:.6g}")
    return "; ".join([f"{y_label or 'Values'} over {x_label or 'x'}", *said]) if said else "No values."
