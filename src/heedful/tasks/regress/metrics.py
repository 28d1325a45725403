"""Metrics of regressors, one row each."""

from typing import TYPE_CHECKING, Final

from heedful.metrics.rows import MetricRow

if TYPE_CHECKING:
    from heedful.tasks.regress.numbers import NumberResult

METRICS: Final[tuple["MetricRow[NumberResult]", ...]] = (
    MetricRow(
        "spearman",
        "Spearman's rho",
        lambda result: result.spearman,
        unit="loss",
        items=lambda result: result.correlation_items(of_ranks=True),
        main=True,
    ),
    MetricRow(
        "pearson",
        "Pearson's r",
        lambda result: result.pearson,
        unit="loss",
        items=lambda result: result.correlation_items(of_ranks=False),
    ),
    MetricRow(
        "mae",
        "mean absolute error",
        lambda result: result.mean_absolute_error,
        better="lower",
        unit="loss",
        items=lambda result: result.error_items(),
    ),
    MetricRow(
        "rmse", "root mean squared error", lambda result: result.root_mean_squared_error, better="lower", unit="loss"
    ),
    MetricRow("r2", "R squared", lambda result: result.explained, unit="loss"),
    MetricRow("loss", "loss", lambda result: result.loss, better="lower", unit="loss"),
)
