"""Handling of scores that the validators of all tasks share."""

import math
from collections.abc import Mapping

from heedful.errors import UserError


def refuse_diverged(loss: float) -> None:
    """Refuse a validation loss that is not finite: training cannot recover from it."""
    if not math.isfinite(loss):
        raise UserError(
            "The validation loss is not finite: lower the learning rate, lengthen the warm-up or set "
            "`train.clip_norm`. What was saved before is intact."
        )


def metric_first(scores: Mapping[str, float], metric: str) -> Mapping[str, float]:
    """Return the scores of a validation, with the deciding metric first."""
    refuse_diverged(scores["loss"])
    return {metric: scores[metric], **scores}
