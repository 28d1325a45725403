"""Puts the remedies of a recipe around the objective of its task."""

from typing import Any

from torch import nn

from heedful.base.errors import UserError
from heedful.config.train.table import Train
from heedful.training.objectives import Objective, PredictiveObjective
from heedful.training.remedies.distillation import Distilled
from heedful.training.remedies.r_drop import RDrop


def with_remedies(objective: Objective[Any], train: Train, teacher: nn.Module | None = None) -> Objective[Any]:
    """Return what a recipe minimises: the objective of its task, with a teacher and with R-Drop where these are set."""
    if train.distill is not None and teacher is not None:
        objective = Distilled(_predictive(objective, "train.distill"), teacher, train.distill)
    if train.r_drop is None:
        return objective
    return RDrop(_predictive(objective, "train.r_drop"), train.r_drop)


def _predictive(objective: Objective[Any], key: str) -> PredictiveObjective[Any, Any]:
    if not isinstance(objective, PredictiveObjective):
        raise UserError(
            f"`{key}` compares predictions, which the objective of this task does not make in a step of their own: "
            "leave it out, or derive the objective from `heedful.training.objectives.PredictiveObjective`."
        )
    return objective
