"""Metrics of the caller's program: functions that score the outputs of a model against references."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from reprlib import repr as shortened
from typing import Any, Final

from heedful.base.errors import UserError
from heedful.config.task_rules import Better, TaskRules

MetricFunction = Callable[[list[Any], list[Any]], float]

_RECORDED: Final = ("step", "part", "epoch")  # keys of metrics.jsonl that are not scores


@dataclass(frozen=True)
class Metric:
    """A metric of your own: `function(outputs, references)` returns a number for a whole corpus.

    Outputs and references are lists of texts for translators, with a tuple of texts for each reference where a test set
    has several, and of labels for classifiers, or of tuples of labels if a text can have several; for taggers, tuples
    of the labels of a sentence's words; for parsers, trees.
    """

    function: MetricFunction
    better: Better = "higher"  # or "lower": which values are better


Metrics = Mapping[str, Metric]
GivenMetrics = Mapping[str, Metric | MetricFunction]  # of a plain function, a higher value is better
MetricNames = Sequence[str]  # of Heedful's own metrics


def check_metrics(given: object, rules: TaskRules) -> dict[str, Metric]:
    """Return the metrics that a caller gave for a model of a task; refuse what cannot be one, before anything runs."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UserError(f"`metrics` is {shortened(given)}, but must be a dictionary of functions by name.")
    if given and not rules.outputs:
        raise UserError(f"`metrics` score outputs, which {rules.learner} does not have: leave them out.")
    taken = [*(known for known in rules.metrics if known not in rules.own_metrics), *_RECORDED]
    for name in given:
        if not isinstance(name, str) or not name.isidentifier():
            raise UserError(f"`metrics` has the name {shortened(name)}, but a name must be letters, digits and `_`.")
        if name in taken:
            raise UserError(f'`metrics["{name}"]`: the name is one of Heedful\'s own: choose another.')
    return {name: _metric(name, value) for name, value in given.items()}


def metrics_by_name(given: object) -> list[str] | None:
    """Return the names of Heedful's own metrics if a caller gave such a list; None otherwise."""
    if isinstance(given, list | tuple) and given and all(isinstance(name, str) for name in given):
        return list(given)
    return None


def score_outputs(metrics: Metrics, outputs: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
    """Return the value of each metric."""
    found = {name: metric.function(list(outputs), list(references)) for name, metric in metrics.items()}
    for name, value in found.items():
        if not isinstance(value, Real) or not math.isfinite(value):
            raise UserError(f"The metric `{name}` returned {shortened(value)}, but must return a finite number.")
    return {name: float(value) for name, value in found.items()}


def _metric(name: object, value: object) -> Metric:
    metric = value if isinstance(value, Metric) else Metric(value)  # type: ignore[arg-type]  # looked at below
    if metric.better not in ("higher", "lower"):
        raise UserError(
            f'`metrics["{name}"]`: `better` is {shortened(metric.better)}, but must be "higher" or "lower".'
        )
    try:
        inspect.signature(metric.function).bind([], [])
    except ValueError:  # a function written in C may not tell its arguments
        pass
    except TypeError:
        raise UserError(
            f'`metrics["{name}"]` is {shortened(metric.function)}, but must be a function of two lists, outputs and '
            "references."
        ) from None
    return metric
