"""Traces for the terminal, as tables of numbers step by step, and as pages."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from heedful.explain.explanation import Array
from heedful.explain.trace.attention import AttentionTrace
from heedful.explain.trace.cells import CellTrace
from heedful.pages.charts.drawing import escape
from heedful.pages.charts.heat_maps import heat_map
from heedful.pages.html import static_page


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
    for key, *numbers, value in _key_rows(trace, query, components):
        aligned = [number.rjust(max(9, len(name))) for number, name in zip(numbers, heads, strict=True)]
        yield "  ".join([key.ljust(wide), *aligned, value])


def _key_rows(trace: AttentionTrace, query: int, components: int) -> Iterator[list[str]]:
    """Yield for each key its name, the number of every step, and the first components of its value."""
    for row, key in enumerate(trace.keys):
        numbers = [show_number(float(step.values[query, row])) for step in trace.steps]
        yield [key, *numbers, show_vector(trace.v[row], min(components, 4))]


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


# --- traces as a page: every step as a heat map, and the worked example of every query as a table ---------------------


_MOST_TABLES: Final = 100  # of more queries, as of the patches of a large image, one is worked through
_STYLE: Final = """
table { border-collapse: collapse; font-size: .875rem; margin: .6rem 0 1rem; }
th, td { text-align: right; padding: .2rem .7rem; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--faint); font-weight: 500; }
details { margin: .4rem 0; } summary { cursor: pointer; } .wide { overflow-x: auto; }
code { font-size: .875rem; }
"""


def attention_page(trace: AttentionTrace, model: str, text: str, query: int, components: int) -> str:
    """Return the page of a head; the example of one query is open."""
    place = f"{trace.kind}, layer {trace.layer + 1}, head {trace.head + 1}"
    parts = []
    for number, step in enumerate(trace.steps, start=1):
        values = np.where(np.isfinite(step.values), step.values, np.nan)
        drawn = heat_map(values, title=step.name, row_names=trace.queries, column_names=trace.keys)
        parts.append(_section(f"{number}. {step.name}", step.meaning, f'<div class="wide">{drawn}</div>'))
    shown = range(len(trace.queries)) if len(trace.queries) <= _MOST_TABLES else [query]
    tables = "".join(_query_table(trace, row, row == query, components) for row in shown)
    note = "One table per query: each key with every step, and the sum of weights times values."
    if len(shown) < len(trace.queries):
        note = f"Query {query + 1} of {len(trace.queries):,}: each key with every step, and the sum of weights times v."
    parts.append(_section(f"{len(trace.steps) + 1}. sum of weights times v", note, tables))
    return static_page(
        f"Attention, step by step: {place}", f"{model}: `{text}`", "".join(parts), brand="Heedful trace", style=_STYLE
    )


def cell_page(trace: CellTrace, model: str, text: str, components: int) -> str:
    """Return the page of a cell: each gate and state over all words, and the numbers of each word."""
    parts = []
    for number, (name, values) in enumerate(trace.parts.items(), start=1):
        drawn = heat_map(values, title=name, x_label="component", row_names=trace.words)
        parts.append(_section(f"{number}. {name}", "Words from top to bottom, components from left to right.", drawn))
    rows = []
    for place, word in enumerate(trace.words):
        lines = "".join(
            f"<tr><td>{escape(name)}</td><td>{show_vector(values[place], components)}</td></tr>"
            for name, values in trace.parts.items()
        )
        table = f"<div class='wide'><table>{lines}</table></div>"
        rows.append(f"<details><summary>{place + 1}. {escape(word)}</summary>{table}</details>")
    parts.append(_section("Word by word", f"The first {components} components.", "".join(rows)))
    title = f"A {trace.cell} cell, gate by gate: layer {trace.layer + 1}, {trace.direction}"
    return static_page(title, f"{model}: `{text}`", "".join(parts), brand="Heedful trace", style=_STYLE)


def _section(title: str, note: str, content: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="note">{escape(note)}</p>{content}</section>'


def _query_table(trace: AttentionTrace, query: int, is_open: bool, components: int) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in ("key", *(step.name for step in trace.steps), "v"))
    rows = []
    for key, *cells in _key_rows(trace, query, components):
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in (escape(key), *cells))}</tr>")
    name, most = escape(trace.queries[query]), escape(greatest(trace, query))
    return (
        f"<details{' open' if is_open else ''}><summary>{query + 1}. {name}: most weight on {most}</summary>"
        f"<p><code>q = {show_vector(trace.q[query], components)}</code></p>"
        f'<div class="wide"><table><tr>{heads}</tr>{"".join(rows)}</table></div>'
        f"<p><code>sum = {show_vector(trace.output[query], components)}</code></p></details>"
    )
