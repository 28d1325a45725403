"""The charts of a study's page: differences from the base, curves, scores by length, and alignments."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any, Final

from heedful.lab.study.definition import BASE
from heedful.lab.study.tables import score_label, spread_text, table, verdict
from heedful.pages.charts.axes import Axis
from heedful.pages.charts.drawing import SERIES, escape
from heedful.pages.charts.heat_maps import heat_map
from heedful.pages.charts.intervals import interval_chart
from heedful.pages.charts.lines import Band, Series, line_chart

_WIDTH: Final = 900
_DEEPEST: Final = 1e4  # of what logarithmic axes show: the least peak, divided by this
FEWEST: Final = 20  # sentences of a length that a chart shows; its table has all
_GREATEST: Final = 20.0  # of perplexities and losses that curves show, as a multiple of the least


def difference_chart(results: Mapping[str, Any]) -> str:
    """Return the difference of each cell from the base, with its interval; empty before there is one."""
    tests = {cell["name"]: cell["against_base"] for cell in results["cells"] if cell["against_base"] is not None}
    if not tests:
        return ""
    label = score_label(results, results["metric"])
    return chart(
        interval_chart(
            {name: test["difference"] for name, test in tests.items()},
            title=f"{label}: difference from {_base_in_words(results)}",
            intervals={n: (test["low"], test["high"]) for n, test in tests.items() if test.get("low") is not None},
            filled=[name for name, test in tests.items() if verdict(test) in ("better", "worse")],
            x_label=f"difference in {label}", width=_WIDTH,
        )
    )  # fmt: skip


def curve_charts(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield curves of validation, of the training loss, and of learning rates where they differ.

    A chart has at most as many cells as there are colours, and those of one figure have the same axes.
    """
    metric = next((curve["metric"] for cell in results["cells"] for curve in cell["curves"]), None)
    if metric is None:
        return
    of_metric = [name for name in (metric, *_others(results, metric)) if _has(results, "valid", name)]
    shown = [*(("valid", name) for name in of_metric), ("train", "loss")]
    if _differ(results, "learning_rate"):
        shown.append(("train", "learning_rate"))
    for part, name in shown:
        yield from _curves(results, part, name)


def length_chart(results: Mapping[str, Any]) -> str:
    """Return the score of each cell by the length of sentences; empty where it was not asked for."""
    if not any(cell.get("by_length") for cell in results["cells"]):
        return ""
    label = score_label(results, results["metric"])
    groups = [
        [(cell["name"], _many(cell["by_length"])) for cell in group if cell.get("by_length")]
        for group in _groups(results)
    ]
    values = [one["mean"] for group in groups for _, spans in group for one in spans]
    drawn = [
        line_chart(
            [Series(name, [one["length"] for one in spans], [one["mean"] for one in spans]) for name, spans in group],
            title=f"{label} by length{_of(number, groups)}", x_label="mean length of the reference in words",
            y_label=label, y_range=common_range(values), width=_WIDTH, height=420,
        )
        for number, group in enumerate(groups)
    ]  # fmt: skip
    return "".join(map(chart, drawn)) + _length_table(results)


def alignments(results: Mapping[str, Any]) -> str:
    """Return the alignment of the study's sentence for every cell, and its translation."""
    parts = []
    for cell in results["cells"]:
        found = cell.get("alignment")
        if not found:
            continue
        if found["weights"] is None:
            drawn = f'<p class="name">{escape(cell["name"])}</p><p class="note">It has no attention to the source.</p>'
        else:
            rows, columns = ([_shown(piece) for piece in found[side]] for side in ("target", "source"))
            drawn = heat_map(found["weights"], title=cell["name"], row_names=rows, column_names=columns, width=460)
        written = f"“{found['output']}”" if found["output"] else "It writes nothing."
        parts.append(f'<figure class="figure">{drawn}<figcaption class="note">{escape(written)}</figcaption></figure>')
    return f'<div class="grid">{"".join(parts)}</div>' if parts else ""


def _shown(piece: str) -> str:
    """Return a piece as a reader wants it: without the mark of a word's end, unless it is nothing else."""
    return piece.removesuffix("</w>") or piece


def chart(svg: str) -> str:
    """Return a wide chart in a frame, in which a narrow page scrolls it rather than making its text too small."""
    return f'<div class="chart scroll" tabindex="0" role="region" aria-label="Chart">{svg}</div>\n'


def common_range(values: Iterable[float], log: bool = False) -> tuple[float, float]:
    """Return round ends of an axis that shows all values, so that several charts can share it."""
    if not log:
        axis = Axis.over(values, 0, 1, round_out=True)
        return axis.low, axis.high
    axis = Axis.over(values, 0, 1, log=True)
    steps = [factor * 10.0**power for power in range(-30, 31) for factor in (1, 2, 5)]
    low = max((step for step in steps if step <= axis.low * (1 + 1e-9)), default=axis.low)
    return low, min((step for step in steps if step >= axis.high * (1 - 1e-9)), default=axis.high)


def _base_in_words(results: Mapping[str, Any]) -> str:
    return "the base" if results["base"] == BASE else f"the base ({results['base']})"


def _of(number: int, groups: Sequence[Any]) -> str:
    return f", {number + 1} of {len(groups)}" if len(groups) > 1 else ""


def _many(spans: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the lengths with enough sentences for a score; all of them if none has."""
    return [one for one in spans if one["sentences"] >= FEWEST] or spans


def _length_table(results: Mapping[str, Any]) -> str:
    """Return the scores by length as a table, with the number of sentences of each span."""
    cells = [cell for cell in results["cells"] if cell.get("by_length")]
    spans = {one["span"]: one["sentences"] for cell in cells for one in cell["by_length"]}
    rows = []
    for cell in cells:
        known = {one["span"]: one for one in cell["by_length"]}
        rows.append([f"<b>{escape(cell['name'])}</b>", *(spread_text(known.get(span)) for span in spans)])
    head = [f"{span} words ({count:,})" for span, count in spans.items()]
    return table(["cell, number of sentences", *head], rows, "Scores by length")


def _groups(results: Mapping[str, Any]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield the cells of each chart, about as many in each: the base is in every one."""
    base = [cell for cell in results["cells"] if cell["name"] == results["base"]]
    others = [cell for cell in results["cells"] if cell["name"] != results["base"]]
    number = max(math.ceil(len(others) / (SERIES - 1)), 1)
    size = max(math.ceil(len(others) / number), 1)
    for first in range(0, max(len(others), 1), size):
        yield [*base, *others[first : first + size]]


def _curves(results: Mapping[str, Any], part: str, name: str) -> Iterator[str]:
    """Yield the charts of one figure: means over seeds, with bands from the lowest to the highest."""
    label, where = score_label(results, name), "validation" if part == "valid" else "training"
    groups = [[_curve(cell, part, name) for cell in group] for group in _groups(results)]
    values = [
        value
        for group in groups
        for series, band in group
        for value in (*series.y, *(() if band is None else (*band.low, *band.high)))
        if math.isfinite(value)
    ]
    peaks = [max(series.y) for group in groups for series, _ in group if series.y]
    log = _on_log_scale(name, values, peaks)
    if log:
        values = [value for value in values if value > min(peaks) / _DEEPEST]
    title = f"{label[:1].upper()}{label[1:]} in {where}"
    for number, group in enumerate(groups):
        yield chart(
            line_chart(
                [series for series, _ in group], title=f"{title}{_of(number, groups)}",
                x_label="update", y_label=label, log_y=log, bands=[band for _, band in group if band is not None],
                y_range=common_range(values, log) if values else None, width=_WIDTH, height=400,
            )
        )  # fmt: skip


def _curve(cell: Mapping[str, Any], part: str, name: str) -> tuple[Series, Band | None]:
    runs = [_points(curve[part], name) for curve in cell["curves"]]
    steps = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
    values = [[run[step] for run in runs] for step in steps]
    series = Series(cell["name"], steps, [mean(row) for row in values])
    if len(runs) < 2 or name == "learning_rate":
        return series, None
    return series, Band(cell["name"], steps, [min(row) for row in values], [max(row) for row in values])


def _on_log_scale(name: str, values: Sequence[float], peaks: Sequence[float]) -> bool:
    """Whether a figure of these values, with this greatest one of each cell, needs a logarithmic axis."""
    if not values or (name != "learning_rate" and min(values) <= 0):
        return False
    if name == "learning_rate":
        return max(peaks) > _GREATEST * min(peaks) > 0
    return name == "perplexity" or (name == "loss" and max(values) > _GREATEST * max(min(values), 0.1))


def _points(curve: Mapping[str, Sequence[float | None]], name: str) -> dict[float, float]:
    pairs = zip(curve["step"], curve.get(name, ()), strict=False)
    return {step: value for step, value in pairs if step is not None and value is not None}


def _others(results: Mapping[str, Any], metric: str) -> list[str]:
    return [name for name in (results["metric"],) if name != metric]


def _differ(results: Mapping[str, Any], name: str) -> bool:
    """Whether cells have other values of a training curve than the base."""
    curves = [cell["curves"][0]["train"].get(name) for cell in results["cells"] if cell["curves"]]
    return any(curve != curves[0] for curve in curves)


def _has(results: Mapping[str, Any], part: str, name: str) -> bool:
    return any(name in curve[part] for cell in results["cells"] for curve in cell["curves"])
