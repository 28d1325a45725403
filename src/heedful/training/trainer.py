"""The training loop, from micro-batches to updates to a trained model.

An update sums the gradients of its micro-batches and divides once by the total number of units (such as target tokens).
No step waits for the device; losses are read when they are shown.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic

import torch
from torch import Tensor, nn

from heedful.base.errors import Stopped, UserError, by_caller, counted
from heedful.data.epochs.loader import Feed, Loader, MicroBatch
from heedful.data.epochs.plan import Indices
from heedful.training.checkpoints import Position
from heedful.training.instruments.divergence import WAYS_OUT, locate_non_finite
from heedful.training.instruments.instruments import Instruments
from heedful.training.meter import Meter
from heedful.training.not_finite import NotFiniteUpdates, Update, describe, name_batches, rows_to_blame
from heedful.training.objectives import Objective
from heedful.training.optimizers.moving_average import MovingAverage
from heedful.training.seeding import seed_micro_batch
from heedful.training.signals import StopRequest
from heedful.training.updates import BatchType, EagerUpdates, ModelLoss, UpdateComputationFactory

_REFRESH_SECONDS: Final = 0.5  # between two updates of the live line on a CPU, where reading a loss costs nothing


@dataclass(frozen=True)
class TrainerSettings:
    """The settings of a training loop."""

    steps: int
    accumulate: int
    clip_norm: float | None
    seed: int
    log_every: int
    checkpoint_every: int
    validate_every: int
    patience: int | None
    higher_is_better: bool
    in_a_row: int = 5  # updates that are not finite, after which the run returns to a checkpoint
    returns: int = 3


@dataclass(frozen=True)
class StepMetrics:
    """What the progress line and the metrics file report about the updates since the last report."""

    step: int
    steps: int
    epoch: int
    loss: float  # the objective, per unit
    perplexity: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    data_wait: float  # fraction of the time in which the device waited for batches
    skipped: int  # updates whose gradient was not finite
    seconds_left: float


class Observer:
    """What the training loop calls to validate, save and show a model; this one does nothing of it."""

    def step_metrics(self, metrics: StepMetrics, logged: bool) -> None:
        """Show the metrics; `logged` ones are written to the metrics file too."""

    def validate(self) -> Mapping[str, float]:
        """Evaluate the model; the first score decides which model is best. Empty if there is no validation data."""
        return {}

    def validated(self, position: Position, scores: Mapping[str, float], best: bool) -> None:
        """Show the scores, and keep the model if it is the best one so far."""

    def checkpoint(self, position: Position) -> None:
        """Save everything a resumed run needs."""

    def not_finite(self, step: int, message: str, record: Mapping[str, Any]) -> None:
        """Show which updates were not applied, or a return because of them, and record it at a step."""

    def name_rows(self, rows: Indices) -> list[str]:
        """Return where rows are from, which are counted through all training stores."""
        return [f"training row {row + 1:,}" for row in rows]

    def return_before(self, step: int) -> Position | None:
        """Restore the last checkpoint before a step, and forget what was recorded after it; None if there is none."""
        return None


class Trainer(Generic[BatchType]):
    """Trains one model from a position to the last step."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective[BatchType],
        optimizer: torch.optim.Optimizer,
        learning_rate: Callable[[int], float],
        feed: Feed[BatchType],
        device: torch.device,
        settings: TrainerSettings,
        observer: Observer,
        computation: UpdateComputationFactory[BatchType] = EagerUpdates,
        before_update: Callable[[int], None] = lambda step: None,
        after_update: Callable[[int], None] = lambda step: None,
        instruments: Instruments | None = None,
    ) -> None:
        """`before_update` and `after_update` are called with the number of completed updates around each one."""
        self.model, self.objective, self.optimizer, self.settings = model, objective, optimizer, settings
        self.learning_rate, self.feed, self.device, self.observer = learning_rate, feed, device, observer
        self._make_computation = partial(
            computation, ModelLoss(objective, model), optimizer, settings.clip_norm, device
        )
        self._computation = self._make_computation()
        self._before_update, self._updated, self._instruments = before_update, after_update, instruments
        self._last_batch: BatchType  # of the last update

    def run(self, position: Position, stop: StopRequest) -> Position:
        """Train until the last step, or until patience, a signal or a request ends the run; return the final position.

        A signal raises `Stopped`; a request of the program itself does not.
        """
        began = time.perf_counter() - position.seconds
        while (returned := self._run(position, stop, began)) is not None:
            position = returned
            self._computation = self._make_computation()  # a recorded one reads the optimizer's state where it was
        return position

    def _run(self, position: Position, stop: StopRequest, began: float) -> Position | None:
        """Train from a position to the end; return another one to train from, if updates are not finite."""
        self.model.train()
        meter = Meter(self.device, position.step, position.meter)
        self._sick = NotFiniteUpdates(self.device, self.settings.in_a_row, position.not_finite)
        start = position.epoch, position.micro_batch
        with Loader(self.feed, start, without=self._sick.left_out) as loader:
            updates = _updates(loader, self.settings.accumulate)
            while position.step < self.settings.steps and not (stop.requested or self._out_of_patience(position)):
                with meter.waiting():
                    update = next(updates)
                tokens, norm = self._update(update, position, meter)
                position.step, position.score = position.step + 1, None
                position.tokens += tokens
                last = update[-1]
                position.epoch = last.epoch + 1 if last.last else last.epoch
                position.micro_batch = 0 if last.last else last.index + 1
                returned = self._after_update(position, meter, norm, stop, began)
                if returned is not None:
                    return returned
        return None

    def _update(self, update: Sequence[MicroBatch[BatchType]], position: Position, meter: Meter) -> tuple[int, Tensor]:
        """Sum gradients over the micro-batches and step; return the number of tokens and the norm of the gradient."""
        self._before_update(position.step)
        units = tokens = 0
        for number, micro in enumerate(update):
            seed_micro_batch(self.settings.seed, position.step, number)
            meter.add(self._computation.add(micro.batch, first=number == 0))
            units += self.objective.units(micro.batch)
            tokens += self.objective.tokens(micro.batch)
        meter.units += units
        meter.tokens += tokens
        rate = self.learning_rate(position.step + 1)
        if self._instruments is None:
            norm = self._computation.step(units, rate)
        else:
            step = partial(self._computation.step, units, rate)
            norm = self._instruments.around(position.step + 1, units, rate, step)
        self._last_batch = update[-1].batch
        not_finite = ~norm.isfinite()
        meter.skipped += not_finite
        batches = tuple(micro.index for micro in update)
        self._sick.add(Update(position.step + 1, update[0].epoch, batches), not_finite)
        return tokens, norm

    def _after_update(
        self, position: Position, meter: Meter, norm: Tensor, stop: StopRequest, began: float
    ) -> Position | None:
        """Show, validate and save what is due; return the position that training returns to, if it does."""
        settings, step = self.settings, position.step
        last = step == settings.steps
        self._updated(step)
        if step % settings.log_every == 0 or last:
            returned = self._look_at_not_finite(position)
            if returned is not None:
                return returned
            self._read(position, meter, norm, logged=True)
            meter.restart(step)
            if self._sick.many:
                raise self._hopeless(position, self._sick.many)
        elif self.device.type == "cpu" and meter.since_shown > _REFRESH_SECONDS:
            self._read(position, meter, norm, logged=False)
        with meter.paused():
            if step % settings.validate_every == 0 or last:
                self._validate(position)
            stopped = stop.signal  # read once: one that comes after this waits for the next step
            saves = stop.take_save() or stopped or stop.requested or self._out_of_patience(position)
            if step % settings.checkpoint_every == 0 or last or saves:
                position.seconds, position.meter = time.perf_counter() - began, meter.state()
                position.not_finite = self._sick.state()
                self.observer.checkpoint(position)
        if stopped and not last:
            raise Stopped(
                f"Stopped at step {step:,} of {settings.steps:,}, checkpoint saved. "
                + by_caller("Run the same command with --resume", "Train with `resume=True`")
                + " to continue.",
                stopped,
            )
        return None

    def _read(self, position: Position, meter: Meter, norm: Tensor, logged: bool) -> None:
        """Read the sums from the device, and show them."""
        skipped = int(meter.skipped)  # waits for the device, so the clock is read after it
        units, updates, seconds = meter.units, position.step - meter.first_step, meter.seconds
        perplexity = math.exp(min(float(meter.likelihood) / units, 700.0))
        self.observer.step_metrics(
            StepMetrics(
                step=position.step,
                steps=self.settings.steps,
                epoch=position.epoch,
                loss=float(meter.loss) / units,
                perplexity=perplexity,
                learning_rate=self.learning_rate(position.step),
                gradient_norm=float(norm),
                tokens_per_second=meter.tokens / seconds,
                data_wait=meter.waited / seconds,
                skipped=skipped,
                seconds_left=seconds / updates * (self.settings.steps - position.step),
            ),
            logged,
        )
        meter.shown()

    def _look_at_not_finite(self, position: Position) -> Position | None:
        """Tell which updates were not applied; after too many in a row, return to a checkpoint if there is one.

        Only where metrics are logged: the step does not depend on the time that it took, so that runs can be repeated.
        """
        sick, step = self._sick, position.step
        for record in sick.tell_returns():
            self.observer.not_finite(step, "", {"part": "returned", **record})
        news = sick.news()
        if not news:
            return None
        names = [self._name_examples(update) for update in news]
        records = [
            {"update": one.step, "epoch": one.epoch, "micro_batches": one.batches, "examples": name}
            for one, name in zip(news, names, strict=True)
        ]
        self.observer.not_finite(step, describe(news, names), {"part": "not finite", "updates": records})
        many = sick.many
        if not many:
            return None
        if len(sick.returned) < self.settings.returns:
            returned = self.observer.return_before(many[0].step)
            if returned is not None:
                return self._returned(position, returned, many, names)
        if not sick.going_on:
            sick.forget_many()
        return None

    def _returned(
        self, position: Position, returned: Position, many: Sequence[Update], names: Sequence[Sequence[str]]
    ) -> Position:
        """Save the position that training returns to, with what is left out from now on, and say so."""
        sick, blamed = self._sick, sorted({name for some in names for name in some})
        sick.leave_out(many, returned.step, blamed)
        returned.not_finite, returned.seconds = sick.state(), position.seconds
        # The best model so far is one of this run, whatever comes now.
        returned.best_score, returned.best_step, returned.best_loss, returned.worse_since = (
            position.best_score, position.best_step, position.best_loss, position.worse_since
        )  # fmt: skip
        self.observer.checkpoint(returned)
        self.observer.not_finite(
            returned.step,
            f"Back to step {returned.step:,}, as {len(many)} updates in a row were not finite, {many[0].step:,} to "
            f"{many[-1].step:,}: their batches will be left out (return {len(sick.returned)} of "
            f"{self.settings.returns}, `train.not_finite.returns`).",
            {},
        )
        return returned

    def _name_examples(self, update: Update) -> list[str]:
        """Name the examples of an update that are to blame; its micro-batches, if no rows can be named."""
        rows = rows_to_blame(update, self.feed, self.model, self.objective, self.device)
        return name_batches(update) if rows is None else self.observer.name_rows(rows)

    def _hopeless(self, position: Position, many: Sequence[Update]) -> UserError:
        where = locate_non_finite(self.model, self.objective, self._last_batch, self.device)
        after = f" after {counted(len(self._sick.returned), 'return')}" if self._sick.returned else ""
        return UserError(
            f"The gradient was not finite in any of the last {len(many)} updates (step {position.step:,}){after}: "
            f"{WAYS_OUT}. {where}{' ' if where else ''}It began with step {many[0].step:,}; the learning rate is "
            f"{self.learning_rate(position.step):.2g}. The checkpoints saved before are intact."
        )

    def _validate(self, position: Position) -> None:
        with MovingAverage(self.optimizer).in_place_of_weights():
            self.model.eval()
            scores = self.observer.validate()
            self.model.train()
            position.score = score = next(iter(scores.values()), None)
            loss, higher = scores.get("loss"), self.settings.higher_is_better
            best = score is None or is_better(score, position.best_score, higher, loss, position.best_loss)
            if best:
                position.best_score, position.best_step, position.worse_since = score, position.step, 0
                position.best_loss = loss
            else:
                position.worse_since += 1
            self.observer.validated(position, scores, best)

    def _out_of_patience(self, position: Position) -> bool:
        return self.settings.patience is not None and position.worse_since >= self.settings.patience


def is_better(
    score: float,
    best: float | None,
    higher_is_better: bool,
    loss: float | None = None,
    best_loss: float | None = None,
) -> bool:
    """Return whether a score beats the best so far; NaN never beats another score, and every score beats NaN.

    Of two equal scores the one with the lower loss is better, if both losses are known.
    """
    if best is None or math.isnan(best):
        return True
    if score == best and loss is not None and best_loss is not None:
        return loss < best_loss
    return score > best if higher_is_better else score < best


def _updates(loader: Iterator[MicroBatch[BatchType]], accumulate: int) -> Iterator[list[MicroBatch[BatchType]]]:
    """Group micro-batches into updates; the last update of an epoch may be smaller."""
    update: list[MicroBatch[BatchType]] = []
    for micro in loader:
        update.append(micro)
        if len(update) == accumulate or micro.last:
            yield update
            update = []
