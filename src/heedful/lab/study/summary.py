"""From what was measured of each cell and seed to the results of a study: one object that its page is made from."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, Final

from heedful.lab.study.definition import Study, StudyCell
from heedful.lab.study.statistics import adjust, by_length, compare_with_base, spread_of
from heedful.version import __version__

FORMAT: Final = 1  # of study.json
_COSTS: Final = ("parameters", "without_embeddings", "steps", "skipped", "flop", "seconds")


def summarise(
    study: Study,
    measured: Mapping[str, Mapping[int, Mapping[str, Any]]],
    failed: Mapping[str, Mapping[int, str]],
    tested: bool = True,
) -> dict[str, Any]:
    """Return the results, from what is known of the seeds of each cell, by name, and from what failed.

    Tests against the base take about a second for each cell; without `tested` they are left out.
    """
    known = {cell.name: [*_in_order(study, measured.get(cell.name, {})).values()] for cell in study.cells}
    first = next((found for cell in known.values() for found in cell), None)
    metric = first["metric"] if first else study.table.metric
    cells = [_cell(study, cell, measured.get(cell.name, {}), failed.get(cell.name, {})) for cell in study.cells]
    tests = {
        cell.name: compare_with_base(known[study.base], known[cell.name], metric)
        for cell in study.cells
        if tested and cell.name != study.base and metric is not None
    }
    adjusted = adjust({name: None if test is None else test["p"] for name, test in tests.items()})
    for cell in cells:
        test = tests.get(cell["name"])
        cell["against_base"] = None if test is None else {**test, "p_adjusted": adjusted[cell["name"]]}
    return {
        "format": FORMAT,
        "heedful": __version__,
        "name": study.name,
        "study": study.table.model_dump(mode="json"),
        "overrides": list(study.overrides),
        "base": study.base,
        "metric": metric,
        "labels": first["labels"] if first else {},
        "lower": first["lower"] if first else [],
        "machine": first["machine"] if first else None,
        "cells": cells,
    }


def results_json(results: Mapping[str, Any]) -> bytes:
    """Return the results as a file: one line per cell, so that it stays small and can be read."""
    head = {key: value for key, value in results.items() if key != "cells"}
    lines = [f"  {json.dumps(key)}: {_compact(value)}," for key, value in head.items()]
    cells = ",\n".join(f"    {_compact(cell)}" for cell in results["cells"])
    return "\n".join(["{", *lines, '  "cells": [', cells, "  ]", "}", ""]).encode()


def to_csv(results: Mapping[str, Any]) -> str:
    """Return a line for each cell and seed: its scores and its cost."""
    scores = list(results["labels"])
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(["cell", "changes", "seed", *scores, *_COSTS, "failed"])
    for cell in results["cells"]:
        named = [cell["name"], "; ".join(cell["changes"])]
        for one in cell["seeds"]:
            values = [one["scores"].get(name) for name in scores]
            table.writerow([*named, one["seed"], *values, *(one["cost"][name] for name in _COSTS), ""])
        for failure in cell["failed"]:
            table.writerow([*named, failure["seed"], *[""] * (len(scores) + len(_COSTS)), failure["reason"]])
    return written.getvalue()


def without_times(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results without what depends on the speed of a machine: two runs of a study have the same."""
    cells = [
        {
            **cell,
            "cost": {**cell["cost"], "seconds": None},
            "seeds": [{**one, "cost": {**one["cost"], "seconds": None}} for one in cell["seeds"]],
        }
        for cell in results["cells"]
    ]
    return {**results, "cells": cells}


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _in_order(study: Study, by_seed: Mapping[int, Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    return {seed: by_seed[seed] for seed in study.seeds if seed in by_seed}


def _cell(
    study: Study, cell: StudyCell, by_seed: Mapping[int, Mapping[str, Any]], failed: Mapping[int, str]
) -> dict[str, Any]:
    ordered = _in_order(study, by_seed)
    known = list(ordered.values())
    described: dict[str, Any] = {
        "name": cell.name,
        "recipe": cell.recipe if cell.recipe != study.cell(study.base).recipe else None,
        "changes": list(cell.changes),
        "keys": dict(study.keys[cell.name]),
        "seeds": [{"seed": seed, "scores": found["scores"], "cost": found["cost"]} for seed, found in ordered.items()],
        "failed": [{"seed": seed, "reason": failed[seed]} for seed in study.seeds if seed in failed],
        "waiting": [seed for seed in study.seeds if seed not in ordered and seed not in failed],
        "scores": _spreads(known),
        "cost": {name: _mean([found["cost"][name] for found in known]) for name in _COSTS},
        "curves": [{"seed": seed, **found["curves"]} for seed, found in ordered.items()],
    }
    if study.table.by_length:
        described["by_length"] = by_length(known)
    if study.table.sentence:
        described["alignment"] = known[0].get("alignment") if known else None
    if study.table.instruments:
        described["instruments"] = known[0].get("instruments") if known else None
    return described


def _spreads(known: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return each score over the seeds; one that is not finite for a seed has no mean."""
    names = known[0]["scores"] if known else {}
    found = {}
    for name in names:
        values = [one["scores"][name] for one in known]
        found[name] = None if None in values else spread_of(values).to_json()
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None
