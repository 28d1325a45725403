"""Defaults of every run, whatever its task: how often it validates, and a warm-up that fits its length."""

from collections.abc import Sequence
from typing import Any, Final

from heedful.config.task_rules import Tables
from heedful.config.train.schedules import InverseSqrt, Noam
from heedful.defaults.rules import PAPER, Case, Rule


def _noam(case: Case) -> dict[str, Any]:
    """Return the paper's schedule with a warm-up of a tenth of the run, and the peak that it would have otherwise."""
    return {"kind": "noam", "warmup": case.warmup, "factor": round((case.warmup / PAPER) ** 0.5, 4)}


EVERY_RUN: Final[Sequence[Rule[Case]]] = (
    Rule("train.validation.every", lambda case: "train.steps" in case.decided, lambda case: max(1, case.steps // 10)),
    Rule("train.schedule", lambda case: case.open_ended and case.steps < 10 * PAPER, _noam),
)


def shorter_warmup(recipe: Tables) -> dict[str, Any]:
    """Shorten the default warm-up of a schedule that the recipe sets, if it takes most of the run."""
    train = recipe.train
    schedule = train.schedule
    if train.start_from or train.epochs is not None or "warmup" in schedule.model_fields_set:
        return {}
    if not isinstance(schedule, Noam | InverseSqrt) or 2 * schedule.warmup < train.steps:
        return {}
    warmup = max(1, train.steps // 10)
    if isinstance(schedule, InverseSqrt):
        return {"train.schedule.warmup": warmup}
    factor = round(schedule.factor * (warmup / schedule.warmup) ** 0.5, 4)
    return {"train.schedule.warmup": warmup, "train.schedule.factor": factor}
