"""Metrics of parsers, one row each: labelled brackets by evalb's rules, and whole trees."""

from typing import Any, Final

from heedful.metrics.rows import MetricRow

METRICS: Final[tuple[MetricRow[Any], ...]] = (
    MetricRow(
        "f1",
        "F1",
        lambda found: found.result.brackets.f1,
        note=lambda found: f"labelled brackets, by evalb's rules; {found.result.brackets.right:,} are right",
        items=lambda found: found.result.f1_items(),
        main=True,
    ),
    MetricRow(
        "precision",
        "precision",
        lambda found: found.result.brackets.precision,
        note=lambda found: f"of {found.result.brackets.predicted:,} predicted brackets",
        items=lambda found: found.result.share_items("predicted"),
        validated=False,
    ),
    MetricRow(
        "recall",
        "recall",
        lambda found: found.result.brackets.recall,
        note=lambda found: f"of {found.result.brackets.true:,} true brackets",
        items=lambda found: found.result.share_items("true"),
        validated=False,
    ),
    MetricRow(
        "f1_short",
        "F1 up to 40 words",
        lambda found: found.result.short.brackets.f1,
        note=lambda found: found.result.short.describe(),
        validated=False,
    ),
    MetricRow(
        "exact_match",
        "exact match",
        lambda found: found.result.exact_match,
        note=lambda found: "trees whose brackets are right",
        items=lambda found: found.result.exact_items(),
        validated=False,
        main=True,
    ),
    MetricRow(
        "well_formed",
        "well-formed",
        lambda found: found.well_formed,
        note=lambda found: f"{len(found.true) - found.result.unparsed:,} of {len(found.true):,}",
        validated=False,
    ),
)
