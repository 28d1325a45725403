"""What the instruments of a study's cells recorded: sizes of updates, and gradients by layer and kind."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from heedful.lab.study.figures import chart, common_range
from heedful.pages.charts.lines import Series, line_chart

_KINDS: Final = ("query", "key", "value")
_SEEN: Final = 0.002  # share of weights from which on a bin is shown
_FEW: Final = 6  # histograms of a chart
_WIDTH, _HEIGHT = 470, 330


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
        found[cell["name"]] = [_histogram(record) for record in _spaced(records)]
    points = [point for series in found.values() for one in series for point in zip(one.x, one.y, strict=True)]
    seen = [x for x, share in points if share >= _SEEN]
    for name, series in found.items():
        if series:
            yield line_chart(
                series, title=name, x_label="change of a weight in one update", y_label="share of weights", log_x=True,
                x_range=(min(seen), max(seen)) if seen else None,
                y_range=common_range([0.0, *(share for _, share in points)]), width=_WIDTH, height=_HEIGHT,
            )  # fmt: skip


def _histogram(record: Mapping[str, Any]) -> Series:
    found = record["histogram"]
    total = found["zeros"] + sum(found["counts"])
    middle = [10 ** (found["from"] + (place + 0.5) / found["per_decade"]) for place in range(len(found["counts"]))]
    return Series(f"update {record['step']:,}", middle, [count / total for count in found["counts"]])


def _spaced(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return a few records from the first to the last one."""
    if len(records) <= _FEW:
        return list(records)
    return [records[round(place * (len(records) - 1) / (_FEW - 1))] for place in range(_FEW)]


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
                width=900, height=400,
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
            y_range=common_range(sizes, log=True), width=_WIDTH, height=_HEIGHT,
        )  # fmt: skip


def _typical(record: Mapping[str, Any], kind: str) -> float | None:
    """Return the root mean square of the gradients of one kind of weights in self-attention, over all layers."""
    rows = [(size, gradient) for _, one, size, _, gradient, _ in record["parts"] if one == kind]
    if not rows or any(gradient is None for _, gradient in rows):
        return None
    return math.sqrt(sum(gradient**2 for _, gradient in rows) / sum(size for size, _ in rows))
