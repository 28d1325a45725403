"""Charts as SVG: what is drawn where, and that every text and every value is safe to draw."""

import base64
import itertools
import math
import re
import struct
import zlib
from collections.abc import Callable
from importlib.resources import files
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.shared.refusals import refuses

from heedful.pages.charts.bars import bar_chart, interval_chart
from heedful.pages.charts.drawing import SERIES, channels_of, colour_of, dashes, paint, series_role
from heedful.pages.charts.heat_maps import heat_map
from heedful.pages.charts.lines import Band, Series, line_chart

SVG = "{http://www.w3.org/2000/svg}"
NASTY = 'a < b & "c" </svg><script>\x00'


def parse(drawn: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawn)


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(one.itertext()) for one in root.iter(f"{SVG}text")]


def points(root: ElementTree.Element, shape: str = "polyline") -> list[list[tuple[float, float]]]:
    found = [one.attrib["points"].split() for one in root.iter(f"{SVG}{shape}")]
    return [[(float(x), float(y)) for x, y in (pair.split(",") for pair in one)] for one in found]


def ticks(root: ElementTree.Element, anchor: str, along: str) -> dict[str, float]:
    """Return the coordinate of each number along an axis."""
    shown = [one for one in root.iter(f"{SVG}text") if one.get("text-anchor") == anchor]
    return {one.text or "": float(one.attrib[along]) for one in shown}


def test_a_curve_passes_through_its_values_as_the_axes_show_them() -> None:
    root = parse(line_chart([Series("loss", [0, 50, 100], [1.0, 3.0, 2.0])], title="Loss"))
    across, up = ticks(root, "middle", "x"), ticks(root, "end", "y")
    (curve,) = points(root)
    assert [x for x, _ in curve] == pytest.approx([across["0"], (across["40"] + across["60"]) / 2, across["100"]])
    assert [y + 4 for _, y in curve] == pytest.approx([up["1"], up["3"], up["2"]])


def test_a_logarithmic_curve_of_powers_is_straight() -> None:
    series = [Series("x^2", [1, 10, 100, 1000], [1, 100, 1e4, 1e6])]
    (curve,) = points(parse(line_chart(series, title="", log_x=True, log_y=True)))
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(curve)]
    for step in steps[1:]:
        assert step == pytest.approx(steps[0], abs=0.02)


def test_values_that_cannot_be_drawn_leave_a_gap() -> None:
    y = [1, 2, math.nan, 4, 5, math.inf, 7]
    root = parse(line_chart([Series("", range(7), y)], title="Gaps", y_label="y"))
    assert [len(run) for run in points(root)] == [2, 2]
    below = parse(line_chart([Series("", range(4), [1, 10, 0, -5])], title="Log", log_y=True))
    assert [len(run) for run in points(below)] == [2]


def test_a_band_lies_between_its_curves_in_the_colour_of_its_series() -> None:
    series = [Series("a", [0, 1], [1, 1]), Series("b", [0, 1], [2, 2])]
    root = parse(line_chart(series, title="", bands=[Band("b", [0, 1], [1.5, 1.5], [3, 3])]))
    up = ticks(root, "end", "y")
    (shape,) = points(root, "polygon")
    assert [y + 4 for _, y in shape] == pytest.approx([up["3"], up["3"], up["1.5"], up["1.5"]])
    group = next(one for one in root.iter(f"{SVG}g") if one.find(f"{SVG}polygon") is not None)
    assert "--series-2" in group.attrib["style"]


def test_an_estimate_stands_between_the_ends_of_its_interval_and_is_a_ring_unless_filled() -> None:
    values, lines = {"a": 1.0, "b": -2.0, NASTY: math.nan}, {"a": (0.5, 2.0), "b": (-3.0, -1.0)}
    root = parse(interval_chart(values, title="Differences", intervals=lines, filled=["b"], x_label="points"))
    across = ticks(root, "middle", "x")
    unit = across["1"] - across["0"]
    dots = list(root.iter(f"{SVG}circle"))
    places = [float(dot.attrib["cx"]) for dot in dots]
    assert places == pytest.approx([across["0"] + unit, across["0"] - 2 * unit], abs=0.05)
    assert ["--paper" in dot.attrib["style"] for dot in dots] == [True, False]
    paths = [one.attrib["d"] for one in root.iter(f"{SVG}path")]
    ends = [[float(x) for x in re.findall(r"M([\d.]+),|H([\d.]+)", path)[0] if x] for path in paths]
    assert [end[0] for end in ends] == pytest.approx([across["0"] + unit / 2, across["0"] - 3 * unit], abs=0.05)
    assert "a: 1 [0.5, 2]" in "".join(root.itertext())


def test_a_legend_names_several_series_and_a_single_one_needs_none() -> None:
    two = parse(line_chart([Series("one", [0], [0]), Series("two", [0], [1])], title=""))
    assert {"one", "two"} <= set(texts(two))
    assert "one" not in texts(parse(line_chart([Series("one", [0], [0])], title="")))


def test_a_long_curve_keeps_its_extremes_in_a_small_image() -> None:
    y = [math.sin(x / 50) for x in range(100_000)]
    y[54_321] = 9.0
    drawn = line_chart([Series("long", range(100_000), y)], title="Long")
    (curve,) = points(parse(drawn))
    assert len(drawn) < 60_000
    assert min(y for _, y in curve) < 100 < sorted(y for _, y in curve)[5]  # the peak, alone at the top


def test_bars_stand_on_zero_and_end_at_their_values() -> None:
    root = parse(bar_chart({"up": 4, "down": -2, "missing": math.nan}, title="Bars"))
    up = {name: y - 4 for name, y in ticks(root, "end", "y").items()}
    bars = {bar[0].text: bar.attrib for bar in root.iter(f"{SVG}rect") if len(bar)}
    assert [*bars] == ["up: 4", "down: -2"]
    rising, falling = bars["up: 4"], bars["down: -2"]
    assert float(rising["y"]) == pytest.approx(up["4"])
    assert float(rising["y"]) + float(rising["height"]) == pytest.approx(up["0"], abs=0.02)
    assert float(falling["y"]) == pytest.approx(up["0"])
    assert float(falling["y"]) + float(falling["height"]) == pytest.approx(up["-2"], abs=0.02)


def test_groups_stand_next_to_each_other_with_their_intervals() -> None:
    groups = {"ours": {"short": 3.0, "long": 2.0}, "theirs": {"short": 1.0}}
    root = parse(bar_chart(groups, title="", intervals={"ours": {"short": (2, 4)}}))
    assert {"ours", "theirs", "short", "long"} <= set(texts(root))
    bars = {bar[0].text: float(bar.attrib["x"]) for bar in root.iter(f"{SVG}rect") if len(bar)}
    assert bars["ours, short: 3"] < bars["theirs, short: 1"] < bars["ours, long: 2"]
    up = {name: y - 4 for name, y in ticks(root, "end", "y").items()}
    (line,) = root.iter(f"{SVG}path")
    low, high = re.search(r"M[\d.]+,([\d.]+)V([\d.]+)", line.attrib["d"]).groups()  # type: ignore[union-attr]
    assert (float(low), float(high)) == pytest.approx((up["2"], up["4"]), abs=0.02)


def test_cells_of_a_heat_map_have_their_place_and_their_colour() -> None:
    values = np.array([[1.0, 0.0, -0.5], [math.nan, 0.25, 0.0]])
    drawn = heat_map(values, title="Cells", row_names=["top", "bottom"], column_names=["a", "b", "c"], dots=[(1, 2)])
    root = parse(drawn)
    found = {bar[0].text: bar.attrib for bar in root.iter(f"{SVG}rect") if len(bar)}
    assert [*found] == ["1.0000", "-0.5000", "nan", "0.2500"]
    wide = float(found["1.0000"]["width"])
    assert float(found["-0.5000"]["x"]) == pytest.approx(float(found["1.0000"]["x"]) + 2 * wide, abs=0.02)
    assert float(found["nan"]["y"]) == pytest.approx(float(found["1.0000"]["y"]) + wide, abs=0.02)
    assert found["1.0000"]["fill"] == colour_of(1)
    assert found["-0.5000"]["fill"] == colour_of(-0.5) != colour_of(0.5)
    (dot,) = root.iter(f"{SVG}circle")
    assert float(dot.attrib["cx"]) == pytest.approx(float(found["1.0000"]["x"]) + 2.5 * wide, abs=0.02)


def test_a_large_heat_map_is_one_image_with_the_same_colours() -> None:
    values = np.linspace(-1, 1, 8000).reshape(80, 100)
    values[3, 4] = math.nan
    (image,) = parse(heat_map(values, title="Large")).iter(f"{SVG}image")
    data = base64.b64decode(image.attrib["href"].removeprefix("data:image/png;base64,"))
    chunks, place = {}, 8
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        chunks[data[place + 4 : place + 8]] = data[place + 8 : place + 8 + length]
        place += 12 + length
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (100, 80)
    codes = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(80, 101)[:, 1:]
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    for row, column in ((0, 0), (79, 99), (40, 0), (10, 10)):
        np.testing.assert_allclose(palette[codes[row, column]], channels_of(values[row, column]), atol=4)
    assert codes[3, 4] == 255


EMPTY: dict[str, Callable[[], str]] = {
    "line_chart": lambda: line_chart([], title=""),
    "line_chart of nothing finite": lambda: line_chart([Series("a", [1, 2], [math.nan, math.inf])], title=""),
    "log of negative values": lambda: line_chart([Series("a", [1, 2], [-1, 0])], title="", log_y=True, log_x=True),
    "bar_chart": lambda: bar_chart({}, title=""),
    "heat_map": lambda: heat_map(np.zeros((0, 0)), title=""),
    "heat_map of nothing finite": lambda: heat_map([[math.nan]], title=""),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_chart_without_values_is_still_an_image(name: str) -> None:
    drawn = EMPTY[name]()
    root = parse(drawn)
    assert float(root.attrib["width"]) > 0
    assert "nan" not in re.sub(r"<title>.*?</title>", "", drawn)
    if not name.startswith("heat_map"):
        assert "no values" in texts(root)


NAMED: dict[str, Callable[[], str]] = {
    "line_chart": lambda: line_chart(
        [Series(NASTY, [0, 1], [0, 1]), Series("b", [0], [0])], title=NASTY, x_label=NASTY, y_label=NASTY
    ),
    "bar_chart": lambda: bar_chart({NASTY: {NASTY: 1}, "b": {NASTY: 2}}, title=NASTY, x_label=NASTY, y_label=NASTY),
    "heat_map": lambda: heat_map(
        [[1]], title=NASTY, x_label=NASTY, y_label=NASTY, row_names=[NASTY], column_names=[NASTY]
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_names_are_text_whatever_is_in_them_and_screen_readers_read_the_title(name: str) -> None:
    root = parse(NAMED[name]())
    shown = NASTY.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    assert texts(root).count(shown) >= 3
    assert root.attrib["role"] == "img"
    assert root[0].tag == f"{SVG}title"
    assert root[0].text == shown
    assert root[1].tag == f"{SVG}desc"
    assert not list(root.iter(f"{SVG}script"))


def test_a_heat_map_is_of_a_matrix() -> None:
    with refuses("...a heat map is of a matrix, but the values have 1 dimensions...", ValueError):
        heat_map(np.zeros(3), title="")


def test_scales_grow_darker_with_the_value_on_both_sides() -> None:
    for sign in (1, -1):
        lightness = [sum(channels_of(sign * share / 10)) for share in range(11)]
        assert lightness == sorted(lightness, reverse=True)
        assert len(set(lightness)) == 11


def test_colours_are_those_of_the_pages_with_literal_ones_beside() -> None:
    style = (files("heedful.pages") / "assets" / "style.css").read_text(encoding="utf-8")
    for role in ("ink", "paper", "soft", "rule", *(series_role(index) for index in range(SERIES))):
        (literal,) = re.findall(r'^fill="(#\w+)"', paint(role))
        assert f"--{role}: {literal};" in style  # the light theme
    assert paint("ink", "stroke") == 'stroke="#1d2433" style="stroke:var(--ink,#1d2433)"'


def test_series_beyond_the_colours_are_told_apart_by_dashes() -> None:
    assert len({(series_role(index), dashes(index)) for index in range(3 * SERIES)}) == 3 * SERIES
    assert dashes(0) == ""
