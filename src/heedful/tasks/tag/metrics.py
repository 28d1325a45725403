"""Metrics of taggers, one row each: a new metric is a new row.

Rows of spans have no value where labels do not mark spans.
"""

from typing import TYPE_CHECKING, Final

from heedful.metrics.rows import MetricRow

if TYPE_CHECKING:
    from heedful.tasks.tag.label_scores import LabelScores

METRICS: "Final[tuple[MetricRow[LabelScores], ...]]" = (
    MetricRow(
        "accuracy",
        "accuracy",
        lambda result: result.words.accuracy,
        note=lambda result: result.words.describe_right(" words"),
        items=lambda result: result.accuracy_items(),
    ),
    MetricRow(
        "precision",
        "precision",
        lambda result: result.found.precision if result.marks_spans else None,
        note=lambda result: f"of {result.found.predicted:,} predicted spans",
        validated=False,
    ),
    MetricRow(
        "recall",
        "recall",
        lambda result: result.found.recall if result.marks_spans else None,
        note=lambda result: f"of {result.found.true:,} true spans",
        validated=False,
    ),
    MetricRow(
        "f1",
        "F1",
        lambda result: result.f1 if result.marks_spans else None,
        note=lambda result: f"{result.found.right:,} spans are right",
        items=lambda result: result.span_items(),
        main=True,
    ),
    MetricRow(
        "f1",
        "macro F1",
        lambda result: None if result.marks_spans else result.f1,
        items=lambda result: result.label_items(),
        main=True,
    ),
    MetricRow("loss", "loss", lambda result: result.loss, "lower", "loss"),
)
