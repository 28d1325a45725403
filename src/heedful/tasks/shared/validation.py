"""What a validation is asked for and what it finds: a task's evaluation while a model trains, by the same metrics."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from heedful.base.errors import UserError
from heedful.base.notes import ShowProgress, show_nothing
from heedful.data.epochs.plan import spread

_SAMPLES: Final = 4  # outputs of a validation that are kept

Sample = tuple[str, str, str]  # an input, its reference, and the model's output


@dataclass(frozen=True)
class Asked:
    """What a run asks of a validation."""

    metric: str = "loss"  # that decides which model is best
    most: int | None = None  # rows to evaluate, at equal distances; None: all
    outputs: bool = False  # whether metrics of the caller's program need the model's outputs
    show: ShowProgress = show_nothing


@dataclass(frozen=True, eq=False)
class Validated:
    """What a validation found: scores by name, the loss among them, and the outputs next to their references."""

    scores: Mapping[str, float]
    outputs: Sequence[Any] = ()
    references: Sequence[Any] = ()
    samples: Sequence[Sample] = ()


def refuse_diverged(loss: float) -> None:
    """Refuse a validation loss that is not finite: training cannot recover from it."""
    if not math.isfinite(loss):
        raise UserError(
            "The validation loss is not finite: lower the learning rate, lengthen the warm-up or set "
            "`train.clip_norm`. What was saved before is intact."
        )


def some_outputs(inputs: Sequence[str], references: Sequence[str], outputs: Sequence[str]) -> list[Sample]:
    """Return a few inputs of a validation with their references and outputs: always the same ones, far apart."""
    rows = spread(min(_SAMPLES, len(outputs)), len(outputs)).tolist()
    return [(inputs[row], references[row], outputs[row]) for row in rows]
