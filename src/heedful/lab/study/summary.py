"""From what was measured of each cell and seed to the results of a study: one object that its page is made from."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, stdev
from typing import Any, Final

import numpy as np

from heedful.lab.compare import LEVEL, compare_counts
from heedful.lab.study.cell import scoring_of
from heedful.lab.study.definition import Study, StudyCell
from heedful.metrics.buckets import rows_by_length
from heedful.metrics.scores import ItemScore
from heedful.metrics.significance import SAMPLES, SEED, run_scores, two_sided_p, welch
from heedful.metrics.summed_metrics import Floats
from heedful.version import __version__

FORMAT: Final = 1  # of study.json
_COSTS: Final = ("parameters", "without_embeddings", "steps", "skipped", "flop", "seconds")
_HALVINGS: Final = 60  # of the interval in which a quantile is sought


def summarise(
    study: Study,
    measured: Mapping[str, Mapping[int, Mapping[str, Any]]],
    failed: Mapping[str, Mapping[int, str]],
    tested: bool = True,
) -> dict[str, Any]:
    """Return the results, from what was measured of the seeds of each cell, in their order, and from what failed.

    Tests against the base take about a second for each cell; without `tested` they are left out.
    """
    known = {name: list(by_seed.values()) for name, by_seed in measured.items()}
    first = next((found for cell in known.values() for found in cell), None)
    metric = first["metric"] if first else study.table.metric
    cells = [_cell(study, cell, measured[cell.name], failed.get(cell.name, {})) for cell in study.cells]
    tests = {
        name: compare_with_base(known[study.base], of_cell, metric)
        for name, of_cell in known.items()
        if tested and name != study.base and metric is not None
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
    devices = results["study"].get("timed", ())
    table.writerow(["cell", "changes", "seed", *scores, *_COSTS, *(f"update_ms_{name}" for name in devices), "failed"])
    for cell in results["cells"]:
        named = [cell["name"], "; ".join(cell["changes"])]
        alone = [((cell.get("timed") or {}).get(name) or {}).get("ms") for name in devices]
        for one in cell["seeds"]:
            values = [one["scores"].get(name) for name in scores]
            table.writerow([*named, one["seed"], *values, *(one["cost"][name] for name in _COSTS), *alone, ""])
        for failure in cell["failed"]:
            table.writerow([*named, failure["seed"], *[""] * (len(scores) + len(_COSTS)), *alone, failure["reason"]])
    return written.getvalue()


def without_times(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results without what depends on the speed of a machine: two runs of a study have the same."""
    cells = [
        {
            **cell,
            **({"timed": None} if "timed" in cell else {}),
            "cost": {**cell["cost"], "seconds": None},
            "seeds": [{**one, "cost": {**one["cost"], "seconds": None}} for one in cell["seeds"]],
        }
        for cell in results["cells"]
    ]
    return {**results, "cells": cells}


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _cell(
    study: Study, cell: StudyCell, by_seed: Mapping[int, Mapping[str, Any]], failed: Mapping[int, str]
) -> dict[str, Any]:
    known = list(by_seed.values())
    scores = {name: [one["scores"][name] for one in known] for name in (known[0]["scores"] if known else ())}
    costs = {name: [one["cost"][name] for one in known if one["cost"][name] is not None] for name in _COSTS}
    described: dict[str, Any] = {
        "name": cell.name,
        "recipe": cell.recipe if cell.recipe != study.cell(study.base).recipe else None,
        "changes": list(cell.changes),
        "keys": dict(study.keys[cell.name]),
        "seeds": [{"seed": seed, "scores": found["scores"], "cost": found["cost"]} for seed, found in by_seed.items()],
        "failed": [{"seed": seed, "reason": failed[seed]} for seed in study.seeds if seed in failed],
        "waiting": [seed for seed in study.seeds if seed not in by_seed and seed not in failed],
        # A score that is not finite for a seed has no mean.
        "scores": {name: None if None in values else asdict(spread_of(values)) for name, values in scores.items()},
        "cost": {name: mean(values) if values else None for name, values in costs.items()},
        "curves": [{"seed": seed, **found["curves"]} for seed, found in by_seed.items()],
    }
    if study.table.by_length:
        described["by_length"] = by_length(known)
    if study.table.sentence:
        described["alignment"] = known[0].get("alignment") if known else None
    if study.table.instruments:
        described["instruments"] = known[0].get("instruments") if known else None
    return described


# --- statistics -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """A figure over the seeds of a cell: mean, deviation and 95% interval of the mean; with one seed the mean alone."""

    values: tuple[float, ...]
    mean: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None


def spread_of(values: Sequence[float]) -> Spread:
    """Return the mean and its interval: mean ± t s / sqrt(n), with Student's t of n - 1 degrees of freedom."""
    if len(values) < 2:
        return Spread(tuple(values), mean(values))
    middle, deviation = mean(values), stdev(values)
    reach = student_t(len(values) - 1) * deviation / math.sqrt(len(values))
    return Spread(tuple(values), middle, deviation, middle - reach, middle + reach)


def student_t(freedom: int, level: float = LEVEL) -> float:
    """Return the t that |T| exceeds with this probability, by halving an interval."""
    low, high = 0.0, 1000.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, freedom) > level else (low, middle)
    return high


def compare_with_base(
    base: Sequence[Mapping[str, Any]], cell: Sequence[Mapping[str, Any]], metric: str
) -> dict[str, Any] | None:
    """Test a cell against the base, both given by what was measured of each seed; None if there is nothing to test.

    With counts of each test sentence: a paired bootstrap and a paired randomisation test on the same sentences, and
    with several seeds Welch's test. Without them, Welch's test of the scores alone.
    """
    if not base or not cell:
        return None
    if all(one["items"] for one in (*base, *cell)):
        a, b = _counts(base), _counts(cell)
        if a.shape[1:] == b.shape[1:]:
            items = base[0]["items"]
            score = ItemScore(metric, metric, "", scoring_of(items["scoring"]), lambda: a, bool(items["lower"]))
            found = compare_counts(score, a, b, SAMPLES, SEED)
            by_runs = None if found.welch is None else found.welch.p
            return {
                "difference": found.difference,
                "low": found.bootstrap.low,
                "high": found.bootstrap.high,
                "p_bootstrap": found.bootstrap.p,
                "p_randomisation": found.p_randomisation,
                "p_welch": by_runs,
                "p": max(found.bootstrap.p, found.p_randomisation, *([] if by_runs is None else [by_runs])),
                "lower": bool(items["lower"]),
            }
    before, after = ([one["scores"][metric] for one in side] for side in (base, cell))
    if None in before or None in after:
        return None
    tested = welch(before, after)
    p = None if tested is None else tested.p
    return {"difference": mean(after) - mean(before), "p_welch": p, "p": p, "lower": metric in base[0]["lower"]}


def adjust(p_values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Adjust p-values for their number, so that one false finding in all is as likely as the level (Holm 1979).

    The k-th smallest of n is multiplied by n - k + 1, and is at least as large as the one before it.
    """
    known = sorted((p, name) for name, p in p_values.items() if p is not None)
    adjusted: dict[str, float | None] = dict.fromkeys(p_values)
    highest = 0.0
    for rank, (p, name) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - rank) * p))
        adjusted[name] = highest
    return adjusted


def by_length(measured: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """Return the score of the sentences of each length, the mean over seeds; None without counts of sentences."""
    if not measured or not all(one["items"] and one["items"]["lengths"] for one in measured):
        return None
    counts, items = _counts(measured), measured[0]["items"]
    found = []
    for span, rows in rows_by_length(items["lengths"]):
        spread = spread_of(run_scores(scoring_of(items["scoring"]), counts[:, rows]).tolist())
        length = float(np.mean([items["lengths"][row] for row in rows]))
        found.append({"span": span.label, "length": length, "sentences": len(rows), **asdict(spread)})
    return found


def _counts(measured: Sequence[Mapping[str, Any]]) -> Floats:
    """Return what each item adds to the sums: [seeds, items, counts]."""
    return np.array([one["items"]["counts"] for one in measured], dtype=np.float64)
