"""The charts of a study's page: differences from the base, curves, scores by length, and alignments."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any, Final

from heedful.pages.charts.bars import bar_chart
from heedful.pages.charts.colours import SERIES
from heedful.pages.charts.drawing import escape
from heedful.pages.charts.heat_maps import heat_map
from heedful.pages.charts.lines import Band, Series, line_chart

_GREATEST: Final = 20.0  # of perplexities and losses that curves show, as a multiple of the least


def difference_chart(results: Mapping[str, Any]) -> str:
    """Return the difference of each cell from the base, with its interval; empty before there is one."""
    label = results["labels"].get(results["metric"], results["metric"])
    tests = {cell["name"]: cell["against_base"] for cell in results["cells"] if cell["against_base"] is not None}
    if not tests:
        return ""
    bars = {name: test["difference"] for name, test in tests.items()}
    lines = {name: (test["low"], test["high"]) for name, test in tests.items() if test.get("low") is not None}
    return bar_chart(
        bars, title=f"{label}: difference from the base ({results['base']})", y_label=label, intervals={"": lines},
        width=960, height=380,
    )  # fmt: skip


def curve_charts(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield validation curves, and those of the training loss: at most as many cells a chart as there are colours."""
    metric = next((curve["metric"] for cell in results["cells"] for curve in cell["curves"]), None)
    if metric is None:
        return
    of_metric = [name for name in (metric, *_others(results, metric)) if _has(results, "valid", name)]
    for part, name in (*(("valid", name) for name in of_metric), ("train", "loss")):
        where = "validation" if part == "valid" else "training"
        for number, group in enumerate(_groups(results)):
            more = "" if number == 0 else f" ({number + 1})"
            yield _curves(group, part, name, f"{name.replace('_', ' ')} in {where}{more}".capitalize())


def length_chart(results: Mapping[str, Any]) -> str:
    """Return the score of each cell by the length of sentences; empty where it was not asked for."""
    label = results["labels"].get(results["metric"], results["metric"])
    found = [(cell["name"], cell["by_length"]) for cell in results["cells"] if cell.get("by_length")]
    if not found:
        return ""
    series = [Series(name, [one["length"] for one in spans], [one["mean"] for one in spans]) for name, spans in found]
    bands = [
        Band(name, *([one[key] for one in spans] for key in ("length", "low", "high")))
        for name, spans in found
        if all(one["low"] is not None for one in spans)
    ]
    return line_chart(
        series, title=f"{label} by length", x_label="mean length of the reference in words", y_label=label,
        bands=bands if len(found) <= 3 else (), width=960, height=420,
    )  # fmt: skip


def alignments(results: Mapping[str, Any]) -> str:
    """Return the alignment of the study's sentence for every cell, and its translation."""
    parts = []
    for cell in results["cells"]:
        found = cell.get("alignment")
        if not found:
            continue
        said = f'<figcaption class="note">{escape(cell["name"])}: {escape(found["output"]) or "nothing"}</figcaption>'
        if found["weights"] is None:
            parts.append(
                f'<figure class="figure">{said}<p class="note">It has no attention to the source.</p></figure>'
            )
            continue
        drawn = heat_map(
            found["weights"], title=cell["name"], row_names=found["target"], column_names=found["source"], width=460
        )
        parts.append(f'<figure class="figure">{drawn}{said}</figure>')
    return f'<div class="grid">{"".join(parts)}</div>' if parts else ""


def _groups(results: Mapping[str, Any]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield the cells of each chart: the base is in every one."""
    base = [cell for cell in results["cells"] if cell["name"] == results["base"]]
    others = [cell for cell in results["cells"] if cell["name"] != results["base"]]
    for first in range(0, max(len(others), 1), SERIES - 1):
        yield [*base, *others[first : first + SERIES - 1]]


def _curves(cells: Sequence[Mapping[str, Any]], part: str, name: str, title: str) -> str:
    series, bands = [], []
    for cell in cells:
        runs = [_points(curve[part], name) for curve in cell["curves"]]
        steps = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
        values = [[run[step] for run in runs] for step in steps]
        series.append(Series(cell["name"], steps, [mean(row) for row in values]))
        if len(runs) > 1:
            bands.append(Band(cell["name"], steps, [min(row) for row in values], [max(row) for row in values]))
    finite = [value for one in series for value in one.y if math.isfinite(value)]
    log = name == "perplexity" and bool(finite) and min(finite) > 0
    if name == "loss" and finite and max(finite) > _GREATEST * max(min(finite), 0.1):
        log = min(finite) > 0
    return line_chart(
        series, title=title, x_label="update", y_label=name.replace("_", " "), log_y=log, bands=bands, width=960,
        height=400,
    )  # fmt: skip


def _points(curve: Mapping[str, Sequence[float | None]], name: str) -> dict[float, float]:
    pairs = zip(curve["step"], curve.get(name, ()), strict=False)
    return {step: value for step, value in pairs if step is not None and value is not None}


def _others(results: Mapping[str, Any], metric: str) -> list[str]:
    return [name for name in (results["metric"],) if name != metric]


def _has(results: Mapping[str, Any], part: str, name: str) -> bool:
    return any(name in curve[part] for cell in results["cells"] for curve in cell["curves"])
