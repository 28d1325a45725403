"""Traces for the terminal: tables of numbers, step by step."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from heedful.explain.explanation import Array
from heedful.explain.trace.attention import AttentionTrace
from heedful.explain.trace.cells import CellTrace


def show_attention(trace: AttentionTrace, query: int, components: int) -> Iterator[str]:
    """Yield the lines of one query's worked example; the query is counted from 0."""
    place = f"{trace.kind}, layer {trace.layer + 1}, head {trace.head + 1}"
    yield f"{place}: query {query + 1} of {len(trace.queries)}, `{trace.queries[query]}`"
    yield ""
    yield f"q = {show_vector(trace.q[query], components)}"
    yield ""
    yield from attention_table(trace, query, components)
    yield ""
    for step in trace.steps:
        yield f"{step.name}: {step.meaning}"
    yield f"sum of weights times v = {show_vector(trace.output[query], components)}"


def attention_table(trace: AttentionTrace, query: int, components: int) -> Iterator[str]:
    """Yield a row for each key: every step, and the first components of its value."""
    heads = [step.name for step in trace.steps]
    wide = max(3, *map(len, trace.keys))
    yield "  ".join(["key".ljust(wide), *(name.rjust(max(9, len(name))) for name in heads), "v"])
    for row, key in enumerate(trace.keys):
        numbers = [show_number(float(step.values[query, row])).rjust(max(9, len(step.name))) for step in trace.steps]
        yield "  ".join([key.ljust(wide), *numbers, show_vector(trace.v[row], min(components, 4))])


def show_cell(trace: CellTrace, components: int) -> Iterator[str]:
    """Yield the lines of every word's gates and states."""
    place = f"{trace.cell} cell, layer {trace.layer + 1}, {trace.direction}"
    yield f"{place}: {len(trace.words)} tokens, in the order in which it reads them"
    wide = max(map(len, trace.parts))
    for number, word in enumerate(trace.words):
        yield ""
        yield f"{number + 1}. {word}"
        for name, values in trace.parts.items():
            yield f"   {name.ljust(wide)}  {show_vector(values[number], components)}"


def show_vector(values: Array | Sequence[float], components: int) -> str:
    """Return the first components of a vector, and how many there are."""
    numbers = [show_number(float(value)) for value in values[:components]]
    more = f" ... ({len(values)} components)" if len(values) > components else ""
    return f"[{' '.join(numbers)}{more}]"


def show_number(value: float) -> str:
    """Return a number with four digits after the point; `-` where a key is not seen."""
    return f"{value:.4f}" if math.isfinite(value) else "-"


def greatest(trace: AttentionTrace, query: int) -> str:
    """Return the key with the greatest weight."""
    return trace.keys[int(np.argmax(trace.weights[query]))]
