"""Costs of layers over the length of sequences: Vaswani et al. 2017, table 1, counted and measured."""

import json
import timeit
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch

from heedful.base.errors import UserError
from heedful.base.files import read_bytes
from heedful.base.packed import Layout
from heedful.doctor.estimates.layers import KINDS, Sizes, count_layer, path_length
from heedful.pages.charts.drawing import join_panels
from heedful.pages.charts.lines import Series, line_chart

Values = Mapping[str, Mapping[int, float]]  # by layer and length
COLUMNS: Final = {
    "cost": "multiplications of a layer",
    "in_sequence": "products in sequence",
    "path": "layers or steps from the first token to the last",
    "milliseconds": "milliseconds",
}
_REPEATS: Final = 5
_SAME_COST: Final = "dilated"  # as that of a convolution


def powers_of_two(longest: int) -> list[int]:
    """Return the lengths at which layers are counted and measured."""
    return [length for length in (2**power for power in range(4, 20)) if length < longest] + [longest]


def count_layers(sizes: Sizes, lengths: Sequence[int]) -> dict[str, Values]:
    """Count the columns of table 1 for every kind of layer, while it runs over one sequence of each length."""
    counted: dict[str, dict[str, dict[int, float]]] = {
        column: {name: {} for name in KINDS} for column in ("cost", "in_sequence", "path")
    }
    for name, kind in KINDS.items():
        for length in lengths:
            counts = count_layer(kind, sizes, length)
            counted["cost"][name][length] = counts.cost
            counted["in_sequence"][name][length] = counts.in_sequence
            counted["path"][name][length] = path_length(kind, sizes, length)
    return {**counted}


def measure_layers(sizes: Sizes, lengths: Sequence[int], tokens: int) -> Values:
    """Measure forward passes on this machine's CPU: the same number of tokens, in sequences of each length."""
    layers = {name: kind.make(sizes, 0) for name, kind in KINDS.items() if name != _SAME_COST}
    found: dict[str, dict[int, float]] = {name: {} for name in layers}
    with torch.inference_mode():
        for length in lengths:
            layout = Layout.of([length] * max(1, tokens // length))
            x = torch.randn(layout.tokens, sizes.width)
            for name, layer in layers.items():
                found[name][length] = _milliseconds(partial(layer, x, layout))
    return found


def read_layer_costs(path: Path, device: str, work: str, width: int) -> tuple[Values, str]:
    """Return the times in a record of `benchmarks/cpu/layer_cost.py`, and what they were measured on."""
    try:
        details: Any = json.loads(read_bytes(path))["details"]
        recorded = details[device]
        times = recorded["milliseconds"][str(width)][work]
        machine = recorded["machine"]
    except (ValueError, KeyError, TypeError) as error:
        there = (
            f"has no times of {device}, {work} and width {width}" if isinstance(error, KeyError) else "is not a record"
        )
        raise UserError(
            f"{path} {there}: give a result of `python -m benchmarks.cpu.layer_cost`, or other options."
        ) from None
    known = {name: {int(length): float(value) for length, value in row.items()} for name, row in times.items()}
    return known, str(machine.get("gpu") or machine.get("cpu"))


def layer_table(columns: Mapping[str, Values], sizes: Sizes) -> dict[str, Any]:
    """Return all numbers for JSON: one row per layer."""
    rows = [
        {"layer": name, "name": kind.name, "order": kind.order}
        | {column: values[name] for column, values in columns.items() if name in values}
        for name, kind in KINDS.items()
    ]
    return {"width": sizes.width, "kernel": sizes.kernel, "radius": sizes.radius, "layers": rows}


def draw_layer_costs(columns: Mapping[str, Values], titles: Mapping[str, str], title: str, width: int) -> str:
    """Draw each column over length, both logarithmic: a straight line is a power of the length."""
    panels = [
        line_chart(
            [*_series(values), *([_equal(values, width)] if column == "cost" else [])],
            title=titles[column],
            x_label="length of the sequence, n",
            y_label=COLUMNS[column],
            log_x=True,
            log_y=True,
            width=640,
            height=420,
        )
        for column, values in columns.items()
    ]
    return join_panels([panels[:2], panels[2:]], title)


def _series(values: Values) -> list[Series]:
    order = list(KINDS)
    return [
        Series(KINDS[name].name, sorted(row), [row[n] for n in sorted(row)], order.index(name))
        for name, row in values.items()
        if name in KINDS
    ]


def _equal(values: Values, width: int) -> Series:
    """Return the line at n = d, where attention alone and a recurrence of one matrix take as many products."""
    shown = [value for row in values.values() for value in row.values()]
    return Series(f"n = d = {width:,}", [width, width], [min(shown), max(shown)], len(KINDS))


def _milliseconds(call: Callable[[], Any]) -> float:
    call()
    return 1000 * median(timeit.repeat(call, number=1, repeat=_REPEATS))
