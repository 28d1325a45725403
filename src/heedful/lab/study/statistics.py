"""Statistics of a study: intervals over seeds, tests of each cell against the base, and scores by length."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, stdev
from typing import Any, Final

import numpy as np

from heedful.lab.compare import LEVEL, compare_counts
from heedful.lab.study.measuring import scoring_of
from heedful.metrics.buckets import rows_by_length
from heedful.metrics.scores import ItemScore
from heedful.metrics.significance import SAMPLES, SEED, run_scores, two_sided_p, welch
from heedful.metrics.summed_metrics import Floats

_HALVINGS: Final = 60  # of the interval in which a quantile is sought


@dataclass(frozen=True)
class Spread:
    """A figure over the seeds of a cell: mean, deviation and 95% interval of the mean; with one seed the mean alone."""

    values: tuple[float, ...]
    mean: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self) | {"values": list(self.values)}


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
            scoring = scoring_of(items["scoring"])
            score = ItemScore(metric, metric, "", scoring, lambda: a, bool(items["lower"]))
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
        scores = run_scores(scoring_of(items["scoring"]), counts[:, rows])
        length = float(np.mean([items["lengths"][row] for row in rows]))
        spread = spread_of(scores.tolist()).to_json()
        found.append({"span": span.label, "length": length, "sentences": len(rows), **spread})
    return found


def _counts(measured: Sequence[Mapping[str, Any]]) -> Floats:
    """Return what each item adds to the sums: [seeds, items, counts]."""
    return np.array([one["items"]["counts"] for one in measured], dtype=np.float64)
