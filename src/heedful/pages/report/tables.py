"""The tables of a report: facts of runs, their recipes, and all values that the curves show."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

from heedful.config.reading.load import flat
from heedful.config.reading.places import without_place
from heedful.config.reading.toml import shown, toml_document
from heedful.pages.charts.drawing import escape
from heedful.pages.report.curves import thin
from heedful.pages.report.log import Entry
from heedful.pages.report.record import RunRecord, run_names, value_of

_MOST_ROWS: Final = 400  # of a table of values
_STATES: Final = {"running": "running", "finished": "finished", "stopped": "stopped before its end"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", numbers: bool = False) -> str:
    """Return a table; the first cell of a row is its heading, and all cells are markup."""
    titled = f"<caption>{escape(caption)}</caption>" if caption else ""
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for first, *cells in rows
    )
    kind = ' class="numbers"' if numbers else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption or "Table")}">'
        f"<table{kind}>{titled}"
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


# --- facts ------------------------------------------------------------------------------------------------------------


def facts(record: RunRecord) -> dict[str, str]:
    """Return what is to be known of a run, by name; empty where it is not recorded."""
    best, train = record.best, record.train
    speeds = [speed for entry in train if (speed := value_of(entry, "tokens_per_second")) is not None]
    waits = [wait for entry in train if (wait := value_of(entry, "data_wait")) is not None]
    epoch = value_of(train[-1], "epoch") if train else None
    steps = f"{record.step:,}" + (f" of {record.steps:,}" if record.steps is not None else "")
    threads = record.fact("threads")
    return {
        "state": _STATES[record.state] + (", the last loss is not finite" if record.diverged else ""),
        "steps": steps,
        "epoch": "" if epoch is None else f"{int(epoch) + 1:,}",
        "best score": "" if best is None else f"{record.metric} {best[record.metric]:.4g} at step {best['step']:,}",
        "time trained": "" if record.seconds is None else duration(record.seconds),
        "speed": f"{median(speeds):,.0f} {record.tokens} per second" if speeds else "",
        "waiting for data": f"{100 * sum(waits) / len(waits):.1f}% of the time" if waits else "",
        "task": record.task,
        "family": record.family,
        "machine": record.fact("machine"),
        "device": record.fact("device")
        + (f", {threads} threads" if threads and record.fact("device") == "cpu" else ""),
        "precision": record.fact("precision"),
        "torch": record.fact("torch"),
        "heedful": str(record.config.get("heedful") or ""),
        "last written": f"{datetime.fromtimestamp(record.written, UTC):%Y-%m-%d %H:%M} UTC" if record.written else "",
        "folder": without_place(str(record.folder)),
    }


def facts_table(records: Sequence[RunRecord]) -> str:
    """Return the facts of all runs, one column per run; those of a single run as a list."""
    columns = [facts(record) for record in records]
    if len(columns) == 1:
        known = ((name, value) for name, value in columns[0].items() if value)
        items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in known)
        return f'<dl class="facts">{items}</dl>'
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[escape(name), *(escape(column.get(name, "")) or "–" for column in columns)] for name in names
            if any(column.get(name) for column in columns)]  # fmt: skip
    return table(["", *map(escape, run_names(records))], rows, "Facts")


def duration(seconds: float) -> str:
    """Format a duration for people: 45 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


# --- recipes ----------------------------------------------------------------------------------------------------------


def recipe_section(records: Sequence[RunRecord]) -> str:
    """Return the recipes: of several runs first the keys whose values differ."""
    differing = ""
    if len(records) > 1:
        rows = [[f"<code>{escape(key)}</code>", *map(escape, values)] for key, *values in differing_keys(records)]
        same = '<p class="note">All keys have the same values.</p>'
        differing = table(["key", *map(escape, run_names(records))], rows, "Keys that differ") if rows else same
    documents = [
        f"<details{' open' if len(records) == 1 else ''}><summary>{escape(name)}: all keys</summary>"
        f'<pre tabindex="0">{escape(toml_document(record.recipe))}</pre></details>'
        for name, record in zip(run_names(records), records, strict=True)
    ]
    return differing + "".join(documents)


def differing_keys(records: Sequence[RunRecord]) -> list[list[str]]:
    """Return the keys whose values differ between runs, each with its value in every run."""
    values = [flat(dict(record.recipe)) for record in records]
    keys = sorted({key for one in values for key in one})
    found = [[key, *(shown(one.get(key)) for one in values)] for key in keys]
    return [row for row in found if len(set(row[1:])) > 1]


# --- values -----------------------------------------------------------------------------------------------------------


def values_section(records: Sequence[RunRecord]) -> str:
    """Return all values as tables, closed until they are asked for."""
    parts = []
    for name, record in zip(run_names(records), records, strict=True):
        for part, entries in (("validations", record.valid), ("training", record.train)):
            if entries:
                parts.append(_values(f"{name}: {part}", entries))
    return "".join(parts)


def _values(caption: str, entries: Sequence[Entry]) -> str:
    kept: list[Entry] = thin(entries, _MOST_ROWS)
    names = [name for name in dict.fromkeys(name for entry in kept for name in entry) if name not in ("part", "step")]
    rows = [[f"{int(entry['step']):,}", *(_cell(entry.get(name)) for name in names)] for entry in kept]
    some = f", {len(kept):,} of {len(entries):,} rows" if len(kept) < len(entries) else ""
    head = ["step", *(escape(name.replace("_", " ")) for name in names)]
    inner = table(head, rows, caption + some, numbers=True)
    return f"<details><summary>{escape(caption + some)}</summary>{inner}</details>"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else escape(str(value))


# --- samples over time: what a model said to the same inputs at its validations ---------------------------------------


_MOST: Final = 12  # validations that are shown


def samples_section(records: Sequence[RunRecord]) -> str:
    """Return the outputs of each run for every input, by step; nothing where none were kept."""
    parts = []
    for name, record in zip(run_names(records), records, strict=True):
        found = _by_input(record.samples)
        if found and len(records) > 1:
            parts.append(f"<h3>{escape(name)}</h3>")
        for (said, reference), outputs in found.items():
            rows = [[f"step {step:,}", escape(output)] for step, output in thin(outputs, _MOST)]
            rows.append(["reference", escape(reference)])
            parts.append(f"<p><strong>{escape(said)}</strong></p>")
            parts.append(table(["", "output"], rows, f"Outputs for: {said}"))
    return "".join(parts)


def _by_input(samples: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """Return the steps and outputs of each input and its reference."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for entry in samples:
        step, rows = value_of(entry, "step"), entry.get("samples")
        if step is None or not isinstance(rows, list):
            continue
        for row in rows:
            if isinstance(row, Mapping):
                key = str(row.get("input")), str(row.get("reference"))
                found.setdefault(key, []).append((int(step), str(row.get("output"))))
    return found
