"""The charts of a study's page: differences from the base, curves, scores by length, and alignments."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any, Final

from heedful.lab.study.definition import BASE, tokens_of_update
from heedful.lab.study.tables import score_label, spread_text, table, verdict
from heedful.pages.charts.axes import Axis
from heedful.pages.charts.bars import interval_chart
from heedful.pages.charts.drawing import SERIES, escape
from heedful.pages.charts.heat_maps import heat_map
from heedful.pages.charts.lines import Band, Series, line_chart

_WIDTH: Final = 900
_DEEPEST: Final = 1e4  # of what logarithmic axes show: the least peak, divided by this
FEWEST: Final = 20  # sentences of a length that a chart shows; its table has all
_KINDS: Final = ("query", "key", "value")
_SEEN: Final = 0.002  # share of weights from which on a bin is shown
_FEW: Final = 6  # histograms of a chart
_SMALL_WIDTH, _SMALL_HEIGHT = 470, 330  # of charts in a grid
_GREATEST: Final = 20.0  # of perplexities and losses that curves show, as a multiple of the least


def difference_chart(results: Mapping[str, Any]) -> str:
    """Return the difference of each cell from the base, with its interval; empty before there is one."""
    tests = {cell["name"]: cell["against_base"] for cell in results["cells"] if cell["against_base"] is not None}
    if not tests:
        return ""
    label = score_label(results, results["metric"])
    base = "the base" if results["base"] == BASE else f"the base ({results['base']})"
    return chart(
        interval_chart(
            {name: test["difference"] for name, test in tests.items()},
            title=f"{label}: difference from {base}",
            intervals={n: (test["low"], test["high"]) for n, test in tests.items() if test.get("low") is not None},
            filled=[name for name, test in tests.items() if verdict(test) in ("better", "worse")],
            x_label=f"difference in {label}", width=_WIDTH,
        )
    )  # fmt: skip


def curve_charts(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield curves of validation, of the training loss, and of learning rates where they differ.

    A chart has at most as many cells as there are colours, and those of one figure have the same axes.
    """
    curves = [curve for cell in results["cells"] for curve in cell["curves"]]
    if not curves:
        return
    metrics = dict.fromkeys((curves[0]["metric"], results["metric"]))
    shown = [("valid", name) for name in metrics if any(name in curve["valid"] for curve in curves)]
    rates = [cell["curves"][0]["train"].get("learning_rate") for cell in results["cells"] if cell["curves"]]
    differ = any(rate != rates[0] for rate in rates)
    for part, name in [*shown, ("train", "loss"), *([("train", "learning_rate")] if differ else [])]:
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
            # Without the mark of a word's end, unless a piece is nothing else.
            rows, columns = ([one.removesuffix("</w>") or one for one in found[side]] for side in ("target", "source"))
            drawn = heat_map(found["weights"], title=cell["name"], row_names=rows, column_names=columns, width=460)
        written = f"“{found['output']}”" if found["output"] else "It writes nothing."
        parts.append(f'<figure class="figure">{drawn}<figcaption class="note">{escape(written)}</figcaption></figure>')
    return f'<div class="grid">{"".join(parts)}</div>' if parts else ""


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
    by_tokens = bool(results["study"].get("equal_tokens"))
    label, where = score_label(results, name), "validation" if part == "valid" else "training"
    groups = [[_curve(cell, part, name, by_tokens) for cell in group] for group in _groups(results)]
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
                x_label="tokens of all batches, at most, in millions" if by_tokens else "update",
                y_label=label, log_y=log, bands=[band for _, band in group if band is not None],
                y_range=common_range(values, log) if values else None, width=_WIDTH, height=400,
            )
        )  # fmt: skip


def _curve(cell: Mapping[str, Any], part: str, name: str, by_tokens: bool) -> tuple[Series, Band | None]:
    runs = [
        {
            step: value
            for step, value in zip(curve[part]["step"], curve[part].get(name, ()), strict=False)
            if value is not None
        }
        for curve in cell["curves"]
    ]
    steps = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
    values = [[run[step] for run in runs] for step in steps]
    scale = tokens_of_update(cell["keys"]) / 1e6 if by_tokens else 1
    at = [scale * step for step in steps]
    series = Series(cell["name"], at, [mean(row) for row in values])
    if len(runs) < 2 or name == "learning_rate":
        return series, None
    return series, Band(cell["name"], at, [min(row) for row in values], [max(row) for row in values])


def _on_log_scale(name: str, values: Sequence[float], peaks: Sequence[float]) -> bool:
    """Whether a figure of these values, with this greatest one of each cell, needs a logarithmic axis."""
    if not values or (name != "learning_rate" and min(values) <= 0):
        return False
    if name == "learning_rate":
        return max(peaks) > _GREATEST * min(peaks) > 0
    return name == "perplexity" or (name == "loss" and max(values) > _GREATEST * max(min(values), 0.1))


# --- instruments ----------------------------------------------------------------------------------------------------


def instrument_charts(results: Mapping[str, Any]) -> str:
    """Return the charts of all cells, those of one kind with the same axes; empty where nothing was recorded."""
    cells = [cell for cell in results["cells"] if cell.get("instruments")]
    return "".join([
        _section("Changes of single weights", _in_grid(_all_histograms(cells))),
        _section("Gradient norms by layer", "".join(map(chart, _layer_norms(cells)))),
        _section("Queries and keys against values", _in_grid(_all_kinds(cells))),
    ])  # fmt: skip


def _section(title: str, inner: str) -> str:
    return f"<h3>{title}</h3>\n{inner}" if inner else ""


def _in_grid(charts: Iterable[str]) -> str:
    drawn = "".join(f"<div>{one}</div>" for one in charts)
    return f'<div class="grid">{drawn}</div>' if drawn else ""


def _all_histograms(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield how large the changes of single weights are, at some updates: a chart per cell."""
    found = {}
    for cell in cells:
        records = [record for record in cell["instruments"] if record["histogram"]]
        if len(records) > _FEW:  # evenly spaced, ends included
            records = [records[round(place * (len(records) - 1) / (_FEW - 1))] for place in range(_FEW)]
        found[cell["name"]] = [_histogram(record) for record in records]
    points = [point for series in found.values() for one in series for point in zip(one.x, one.y, strict=True)]
    seen = [x for x, share in points if share >= _SEEN]
    for name, series in found.items():
        if series:
            yield line_chart(
                series, title=name, x_label="change of a weight in one update", y_label="share of weights", log_x=True,
                x_range=(min(seen), max(seen)) if seen else None,
                y_range=common_range([0.0, *(share for _, share in points)]), width=_SMALL_WIDTH, height=_SMALL_HEIGHT,
            )  # fmt: skip


def _histogram(record: Mapping[str, Any]) -> Series:
    found = record["histogram"]
    total = found["zeros"] + sum(found["counts"])
    middle = [10 ** (found["from"] + (place + 0.5) / found["per_decade"]) for place in range(len(found["counts"]))]
    return Series(f"update {record['step']:,}", middle, [count / total for count in found["counts"]])


def _layer_norms(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the gradient norm by layer at the first update that was measured: encoder and decoder, all cells."""
    for stack in ("encoder", "decoder"):
        series = []
        for cell in cells:
            norms = _norms_by_layer(cell["instruments"][0], stack)
            if len(norms) > 1:
                series.append(Series(cell["name"], [layer + 1 for layer in norms], list(norms.values())))
        if series:
            step, sizes = cells[0]["instruments"][0]["step"], [y for one in series for y in one.y]
            yield line_chart(
                series, title=f"Gradient norm by layer of the {stack}, update {step:,}", x_label="layer",
                y_label="gradient norm", log_y=True, y_range=common_range(sizes, log=True),
                width=_WIDTH, height=400,
            )  # fmt: skip


def _norms_by_layer(record: Mapping[str, Any], stack: str) -> dict[int, float]:
    """Return the norm of the gradient of all weights of each layer."""
    squares: dict[int, float] = {}
    for layer, _, _, _, gradient, _ in record["parts"]:
        name, _, number = layer.rpartition(".")
        if name == stack and number.isdigit() and gradient is not None:
            squares[int(number)] = squares.get(int(number), 0.0) + gradient**2
    return {layer: math.sqrt(square) for layer, square in sorted(squares.items())}


def _all_kinds(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the gradients of queries, keys and values over the updates: their root mean squares in all layers."""
    found = {}
    for cell in cells:
        series = []
        for kind in _KINDS:
            points = [(record["step"], size) for record in cell["instruments"] if (size := _typical(record, kind))]
            if points:
                series.append(Series(kind, [step for step, _ in points], [size for _, size in points]))
        if series:
            found[cell["name"]] = series
    sizes = [size for series in found.values() for one in series for size in one.y]
    for name, series in found.items():
        yield line_chart(
            series, title=name, x_label="update", y_label="gradient of a weight", log_x=True, log_y=True,
            y_range=common_range(sizes, log=True), width=_SMALL_WIDTH, height=_SMALL_HEIGHT,
        )  # fmt: skip


def _typical(record: Mapping[str, Any], kind: str) -> float | None:
    """Return the root mean square of the gradients of one kind of weights in self-attention, over all layers."""
    rows = [(size, gradient) for _, one, size, _, gradient, _ in record["parts"] if one == kind]
    if not rows or any(gradient is None for _, gradient in rows):
        return None
    return math.sqrt(sum(gradient**2 for _, gradient in rows) / sum(size for size, _ in rows))
