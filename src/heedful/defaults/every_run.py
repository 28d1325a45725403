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
    Rule("train.schedule", lambda case: case.measured and case.steps < 10 * PAPER, _noam),
)


def has_usual_warmup(recipe: Tables) -> bool:
    """Whether the recipe sets a schedule, and leaves its warm-up to the default, whatever the length of the run."""
    schedule = recipe.train.schedule
    usual = isinstance(schedule, Noam | InverseSqrt) and "warmup" not in schedule.model_fields_set
    return usual and not recipe.train.start_from


def shorter_warmup(case: Case) -> dict[str, Any]:
    """Shorten the default warm-up of a schedule that the recipe sets, if it takes most of the run."""
    schedule = case.recipe.train.schedule
    if not (has_usual_warmup(case.recipe) and case.measured) or 2 * schedule.warmup < case.steps:
        return {}
    assert isinstance(schedule, Noam | InverseSqrt)
    warmup = max(1, case.steps // 10)
    if isinstance(schedule, InverseSqrt):
        return {"train.schedule.warmup": warmup}
    factor = round(schedule.factor * (warmup / schedule.warmup) ** 0.5, 4)
    return {"train.schedule.warmup": warmup, "train.schedule.factor": factor}
