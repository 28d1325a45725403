"""The time of layers over the length of sequences: Vaswani et al. 2017, table 1, as a measurement."""

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
from heedful.nn.attention.multi_head import SelfAttention
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.pages.charts.lines import Series, line_chart

Times = Mapping[str, Mapping[int, float]]  # milliseconds, by layer and length
_NAMES: Final = {"lstm": "LSTM", "gru": "GRU", "self_attention": "self-attention", "attention_alone": "attention alone"}
_REPEATS: Final = 5


def measure_layers(width: int, lengths: Sequence[int], tokens: int) -> Times:
    """Measure forward passes on this machine's CPU: the same number of tokens, in sequences of each length."""
    heads = max(1, width // 64)
    layers = {
        "lstm": RecurrentStack("lstm", width, width),
        "gru": RecurrentStack("gru", width, width),
        "self_attention": SelfAttention(width, heads),
    }
    found: dict[str, dict[int, float]] = {name: {} for name in layers}
    with torch.inference_mode():
        for length in lengths:
            layout = Layout.of([length] * max(1, tokens // length))
            x = torch.randn(layout.tokens, width)
            for name, layer in layers.items():
                found[name][length] = _milliseconds(partial(layer, x, layout))
    return found


def read_layer_costs(path: Path, device: str, work: str, width: int) -> tuple[Times, str]:
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


def draw_layer_costs(times: Times, title: str) -> str:
    """Draw milliseconds over length, both logarithmic: a straight line is a power of the length."""
    series = [
        Series(_NAMES.get(name, name.replace("_", " ")), sorted(row), [row[length] for length in sorted(row)])
        for name, row in times.items()
    ]
    return line_chart(
        series, title=title, x_label="length of sequences", y_label="milliseconds", log_x=True, log_y=True
    )


def _milliseconds(call: Callable[[], Any]) -> float:
    call()
    return 1000 * median(timeit.repeat(call, number=1, repeat=_REPEATS))
