"""Validation: a task's evaluation on the validation corpora while a model trains, by the same metrics."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from heedful.base.errors import UserError
from heedful.base.progress import ShowProgress, show_nothing
from heedful.data.epochs.plan import spread
from heedful.data.prepare.prepared import Prepared
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.models.bundle import Bundle

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


class Validates(Protocol):
    """The part of a task that validates."""

    def validate(self, bundle: Bundle[Any], prepared: Prepared, asked: Asked) -> Validated:
        """Evaluate a model that is being trained on the validation corpora, of which there is one at least."""
        ...

    def baseline(
        self, bundle: Bundle[Any], prepared: Prepared, asked: Asked, say: Callable[[str], None]
    ) -> Mapping[str, float]:
        """Return the scores of the line to beat by name; none where a task has no such line."""
        ...


@dataclass(eq=False)
class Validator:
    """Validates the model of a run; the recipe's metric comes first, and that of the line to beat last."""

    task: Validates
    bundle: Bundle[Any]
    prepared: Prepared
    metrics: Metrics = field(default_factory=dict)  # of the caller's program
    show: ShowProgress = show_nothing
    say: Callable[[str], None] = lambda line: None
    samples: Sequence[Sample] = ()  # of the last validation

    def __call__(self) -> Mapping[str, float]:
        """Return all scores; none without validation corpora."""
        settings = self.bundle.recipe.train.validation
        if not self.prepared.valid:
            return {}
        asked = Asked(settings.metric, settings.max_sentences, bool(self.metrics), self.show)
        found = self.task.validate(self.bundle, self.prepared, asked)
        if self.metrics and not found.outputs:
            raise UserError("`metrics` score outputs, which this task's validation does not have: leave them out.")
        self.samples = found.samples
        scores = {**found.scores, **score_outputs(self.metrics, found.outputs, found.references)}
        refuse_diverged(scores["loss"])
        line = self.task.baseline(self.bundle, self.prepared, asked, self.say)
        metric = settings.metric if settings.metric in line else next(iter(line), "")
        to_beat = {f"baseline_{metric}": line[metric]} if line else {}
        return {settings.metric: scores[settings.metric], **scores, **to_beat}


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
