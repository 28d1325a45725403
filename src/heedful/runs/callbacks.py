"""Callbacks: what a program does while a model trains, such as reporting to a tracker, or stopping the run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shortened

from heedful.base.errors import UserError
from heedful.training.trainer import StepMetrics


@dataclass(frozen=True)
class Validation:
    """The scores of the model on the validation corpora after a number of steps."""

    step: int
    scores: Mapping[str, float]  # the metric that decides which model is best comes first; empty without `data.valid`
    best: bool  # whether this model is the best one so far


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was just saved."""

    step: int
    folder: Path


class Callback:
    """Base class of callbacks: override what you need. A method that returns True stops the run.

    The run stops after the step, with a checkpoint from which `resume=True` continues, bit-identical to a run that
    was never stopped. An error in a callback ends the run as any other error does.
    """

    def on_step(self, step: int) -> bool | None:
        """Run after every step."""

    def on_metrics(self, metrics: StepMetrics) -> bool | None:
        """Run when metrics are logged, every `train.log_every` steps."""

    def on_validation(self, validation: Validation) -> bool | None:
        """Run after a validation."""

    def on_checkpoint(self, checkpoint: Checkpoint) -> bool | None:
        """Run after a checkpoint was saved."""


class Callbacks:
    """All callbacks of a run, called in order; `stop` is called when one of them stops the run."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        for number, callback in enumerate(callbacks):
            if not isinstance(callback, Callback):
                raise UserError(
                    f"callbacks[{number}] is {shortened(callback)}, but must be an object of a class derived from "
                    "heedful.Callback."
                )
        self._all = tuple(callbacks)
        self.stop: Callable[[], None] = lambda: None

    def step(self, step: int) -> None:
        """Call `on_step` of all."""
        self._heed([callback.on_step(step) for callback in self._all])

    def metrics(self, metrics: StepMetrics) -> None:
        """Call `on_metrics` of all."""
        self._heed([callback.on_metrics(metrics) for callback in self._all])

    def validation(self, validation: Validation) -> None:
        """Call `on_validation` of all."""
        self._heed([callback.on_validation(validation) for callback in self._all])

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Call `on_checkpoint` of all."""
        self._heed([callback.on_checkpoint(checkpoint) for callback in self._all])

    def _heed(self, answers: Sequence[bool | None]) -> None:
        if any(answer is True for answer in answers):
            self.stop()
