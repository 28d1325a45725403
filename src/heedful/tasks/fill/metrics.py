"""Metrics of masked language models, one row each."""

from dataclasses import replace
from typing import Any, Final

from heedful.metrics.rows import LOSS, PERPLEXITY, MetricRow

ACCURACY: Final[MetricRow[Any]] = MetricRow(
    "accuracy",
    "accuracy",
    lambda found: found.accuracy,
    note=lambda found: f"{found.right:,} of {found.likelihood.tokens:,} masked tokens",
)
METRICS: Final[tuple[MetricRow[Any], ...]] = (
    ACCURACY,
    replace(PERPLEXITY, note=lambda found: ""),
    LOSS,
    MetricRow(
        "next_accuracy",
        "next sentence",
        lambda found: found.next_accuracy,
        note=lambda found: f"{found.right_pairs:,} of {found.pairs:,} pairs",
        validated=False,  # the models of few recipes predict it
    ),
)
VALIDATED: Final[tuple[MetricRow[Any], ...]] = (LOSS, PERPLEXITY, ACCURACY)  # in this order
