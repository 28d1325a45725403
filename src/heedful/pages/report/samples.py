"""Samples over time: what a model said to the same inputs at its validations."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from heedful.pages.charts.drawing import escape
from heedful.pages.report.curves import thin
from heedful.pages.report.record import RunRecord, run_names, value_of
from heedful.pages.report.tables import table

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
            head = f"<p><strong>{escape(said)}</strong></p>"
            parts.append(
                head + table(["", "output"], [*rows, ["reference", escape(reference)]], f"Outputs for: {said}")
            )
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
