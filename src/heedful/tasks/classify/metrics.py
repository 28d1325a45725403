"""Metrics of classifiers, one row each."""

from typing import TYPE_CHECKING, Final

from heedful.metrics.rows import MetricRow

if TYPE_CHECKING:
    from heedful.metrics.classification import ClassificationResult

METRICS: "Final[tuple[MetricRow[ClassificationResult], ...]]" = (
    MetricRow(
        "accuracy",
        "accuracy",
        lambda result: result.accuracy,
        note=lambda result: result.describe_right(),
        items=lambda result: result.accuracy_items(),
    ),
    MetricRow("f1", "macro F1", lambda result: result.macro_f1, items=lambda result: result.f1_items()),
    # With one class per text, the micro F1 is the accuracy.
    MetricRow("micro_f1", "micro F1", lambda result: result.micro_f1 if result.several else None, validated=False),
    MetricRow("loss", "loss", lambda result: result.loss, "lower", "loss"),
)
