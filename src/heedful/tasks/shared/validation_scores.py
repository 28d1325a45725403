"""Handling of scores that the validators of all tasks share."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from heedful.data.epochs.plan import spread
from heedful.errors import UserError

_SAMPLES: Final = 4  # outputs of a validation that are kept


def some_outputs(
    inputs: Sequence[str], references: Sequence[str], outputs: Sequence[str]
) -> list[tuple[str, str, str]]:
    """Return a few inputs of a validation with their references and outputs: always the same ones, far apart."""
    rows = spread(min(_SAMPLES, len(outputs)), len(outputs)).tolist()
    return [(inputs[row], references[row], outputs[row]) for row in rows]


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
