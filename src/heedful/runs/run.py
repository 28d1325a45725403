"""A run and its folder: trains to the end, validates, saves, reports, and averages."""

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Final

import torch

from heedful.base.errors import UserError, by_caller, counted
from heedful.base.files import new_folder, remove_folder
from heedful.config.model.pooled import TextModel
from heedful.config.recipe import Recipe
from heedful.config.train.schedules import Wait
from heedful.config.train.table import Average
from heedful.data.epochs.plan import Indices
from heedful.metrics.own_metrics import Metrics
from heedful.models.bundle import Bundle, copy_weights
from heedful.models.own_parts import handed_over
from heedful.models.recurrent.decoder import RecurrentDecoder
from heedful.models.weights import mean_weights, set_weights
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.pages.report.page import LiveReport
from heedful.runs.callbacks import Callbacks, Checkpoint, Validation
from heedful.runs.job import Job
from heedful.runs.model_card import write_card
from heedful.runs.progress import ContentionNotice, RunProgress, duration, recorded_instruments, recorded_metrics
from heedful.tasks.shared.line import BASELINE
from heedful.training.checkpoints import (
    Position,
    Retention,
    best_checkpoints,
    checkpoint_weights,
    damage_of_weights,
    last_checkpoints,
    load_checkpoint,
    save_checkpoint,
    step_of,
)
from heedful.training.instruments.divergence import DivergenceWatch
from heedful.training.instruments.instruments import Instruments, Record
from heedful.training.optimizers.state import forget_momentum
from heedful.training.schedules import build_decay, build_run_rate
from heedful.training.signals import StopRequest
from heedful.training.trainer import Observer, StepMetrics, Trainer, TrainerSettings, is_better
from heedful.training.updates import (
    BatchLoss,
    CapturedUpdates,
    EagerUpdates,
    UpdateComputationFactory,
)

CHECKPOINTS: Final = "checkpoints"
SINGLE: Final = "single"  # the best single model, where the one in the run folder is a mean of several
MEAN: Final = "mean"  # the mean, where it is not better than the best single model


class RunObserver(Observer):
    """The observer of the trainer in a run: validates, saves and reports."""

    def __init__(
        self,
        job: Job,
        run: Path,
        progress: RunProgress,
        stop: StopRequest,
        callbacks: Callbacks | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.job, self.run, self.progress, self.stop = job, run, progress, stop
        self.report = LiveReport(run, progress.say) if job.recipe.train.report else None
        self.callbacks = callbacks or Callbacks()
        self.callbacks.stop = stop.request
        self.divergence = DivergenceWatch()
        on_cpu = job.device.type == "cpu"
        self.contention = ContentionNotice(progress.say, torch.get_num_threads()) if on_cpu else None
        self.validator = job.task.validator(Bundle(job.recipe, job.vocabularies, job.model), job.prepared)
        self.validator.show, self.validator.say, self.validator.metrics = progress.showing, progress.say, metrics or {}

    def to_the_end(self, position: Position) -> None:
        """Train, and say where the model is; however this ends, the report of the run is its last."""
        try:
            self._train(position)
        except Exception:
            if self.report:
                self.report.finish()
            raise

    def _train(self, position: Position) -> None:
        steps = self.job.recipe.train.steps
        if position.step >= steps:
            self.progress.say(f"{self.run} is already at step {position.step:,} of {steps:,}: nothing to train.")
            self._average(position)  # a run that was killed after its last step has not averaged yet
            self._finish_report()
            return
        for record in recorded_instruments(self.run):  # a resumed run compares with what it recorded before
            self.divergence.measured(record)
        for entry in recorded_metrics(self.run, "train"):
            self.divergence.metrics(entry["step"], entry["loss"], entry.get("gradient_norm"))
        began = time.perf_counter()
        trainer = build_trainer(self.job, self, self.callbacks.step, self.measured)
        with self.stop.during_training():
            end = trainer.run(position, self.stop)
        how = by_caller("Run the same command with --resume", "Train with `resume=True`")
        if self.stop.requested and end.step < steps:
            self.progress.say(
                f"Stopped by a callback at step {end.step:,} of {steps:,}, checkpoint saved. {how} to continue."
            )
            self._finish_report()
            return
        self.stop.at_once = f"Stopped after the last step, checkpoint saved. {how} to continue."
        took = duration(time.perf_counter() - began)
        best = self.run / SINGLE if (self.run / SINGLE).exists() else self.run  # averaged before, and none better since
        worse = counted(end.worse_since, "validation")
        early = "" if end.step == steps else f" (no better model in {worse}: stopped early)"
        which = "The last model" if end.best_score is None else f"The best model, of step {end.best_step:,},"
        self.progress.say(f"Trained {end.step:,} steps in {took}{early}. {which} is in {best}")
        self._average(end)
        self._tell_if_it_loses(end)
        self._finish_report()
        command, call = self.job.task.usage(self.job.recipe, self.run)
        self.progress.say("Next: " + by_caller(command, f'heedful.load("{self.run}").{call}'))

    def _finish_report(self) -> None:
        if self.report and self.report.finish():
            self.progress.say(f"Its curves are in {self.report.path}")

    def keep_line(self) -> None:
        """Take the line to beat from what a resumed run has recorded, instead of learning it again."""
        for entry in recorded_metrics(self.run, "valid")[-1:]:
            recorded = {name: value for name, value in entry.items() if name.startswith(BASELINE) and value is not None}
            self.validator.to_beat = recorded
            for name, value in recorded.items():
                line = f"{name.removeprefix(BASELINE)} {value:.4g}, of {self.job.recipe.rules.line}"
                self.progress.say(f"the line to beat: {line}, as recorded")

    def _tell_if_it_loses(self, end: Position) -> None:
        """Say that the line to beat is better than the best model, if it is."""
        recipe, recorded = self.job.recipe, recorded_metrics(self.run, "valid")
        best: dict[str, Any] = next((one for one in reversed(recorded) if one["step"] == end.best_step), {})
        for metric, better in recipe.rules.metrics.items():
            baseline, score = best.get(f"{BASELINE}{metric}"), best.get(metric)
            if baseline is None or score is None or not is_better(baseline, score, better == "higher"):
                continue
            could_be_bag = isinstance(recipe.model, TextModel) and recipe.model.encoder.family != "bag"
            way_out = 'Try `encoder = { family = "bag" }`, or see' if could_be_bag else "See"
            self.progress.say(
                f"This model loses to the line to beat: its {metric} is {score:.4g}, and "
                f"that of {recipe.rules.line} is {baseline:.4g}. {way_out} docs/how-to/little-data.md"
            )

    def _average(self, end: Position) -> None:
        """Average checkpoints, if the recipe requests it; the mean becomes the run's model if it is better."""
        if (recipe := self.job.recipe).train.average is None:
            return
        parts = [*filter(self._is_sound, checkpoints_to_average(self.run / CHECKPOINTS, recipe.train.average, recipe))]
        if not parts:
            self.progress.say("No checkpoint was validated when it was saved: there is nothing to average")
            return
        set_weights(self.job.trained, mean_weights(map(checkpoint_weights, parts)))
        with evaluation_mode(self.job.model):
            scores = self.validate()
        steps = ", ".join(f"{step:,}" for step in sorted(map(step_of, parts)))
        made = f"the mean of {counted(len(parts), 'checkpoint')}, steps {steps}"
        asked = recipe.train.average.last or recipe.train.average.best or 0
        fewer = f" ({asked} were requested, but there are no more)" if len(parts) < asked else ""
        self.progress.say(f"Averaged: {made}{fewer}")
        score = next(iter(scores.values()), None)
        if score is None or is_better(
            score, end.best_score, higher_is_better(recipe), scores.get("loss"), end.best_loss
        ):
            self._put_first(made, scores, end)
        else:
            self._put_next_to_best(made, scores, end)

    def _is_sound(self, checkpoint: Path) -> bool:
        """Whether a checkpoint can be averaged; say why if it cannot: the run is worth more than one part of a mean."""
        damage = damage_of_weights(checkpoint)
        if damage:
            self.progress.say(f"{damage}: the mean is made without it")
        return damage is None

    def _put_first(self, made: str, scores: Mapping[str, float], end: Position) -> None:
        """Make the mean the run's model, and move the best single one to SINGLE."""
        single = self.run / SINGLE
        if not single.exists():
            with new_folder(single) as staged:  # atomic: the run folder's own weights are replaced below
                self.job.describe_in(staged)
                copy_weights(self.run, staged)
                self._write_card_of_best(staged, end, named=single)
        self._write_card(self.run, made, scores)
        self.job.write_in(self.run)
        _discard(self.run / MEAN)
        better = "".join(
            f"better ({metric} {score:.4g}{', with a lower loss' if score == end.best_score else ''}) and "
            for metric, score in [*scores.items()][:1]
        )
        before = "" if end.best_score is None else f" ({end.best_score:.4g})"
        self.progress.say(f"It is {better}now the model in {self.run}; the best single one{before} is in {single}")

    def _put_next_to_best(self, made: str, scores: Mapping[str, float], end: Position) -> None:
        """Keep or restore the best single model as the run's model, and write the mean to MEAN."""
        single, mean = self.run / SINGLE, self.run / MEAN
        with new_folder(mean) as staged:
            self.job.describe_in(staged)
            self.job.write_in(staged)
            self._write_card(staged, made, scores, named=mean)
        if single.exists():  # an earlier mean is the run's model
            copy_weights(single, self.run)
            self._write_card_of_best(self.run, end, named=self.run)
            remove_folder(single)
        metric, score = next(iter(scores.items()))
        self.progress.say(
            f"It is not better ({metric} {score:.4g}; the best single model has {end.best_score:.4g}): it is in "
            f"{mean}, and {self.run} keeps the best single model"
        )

    def _write_card_of_best(self, folder: Path, end: Position, named: Path) -> None:
        metric: str = self.job.recipe.train.validation.metric
        scores = {} if end.best_score is None else {metric: end.best_score}
        made = f"the best single model, of {end.best_step:,} updates"
        self._write_card(folder, made, scores, named)

    def _write_card(self, folder: Path, made: str, scores: Mapping[str, float], named: Path | None = None) -> None:
        write_card(folder, self.job.recipe, self.job.model, made, scores, named, self.job.task)

    def step_metrics(self, metrics: StepMetrics, logged: bool) -> None:
        """Show the metrics of a step, and say that the run has begun to diverge if it has."""
        self.progress.step_metrics(metrics, logged)
        if self.contention:
            self.contention.look()
        if not logged:
            return
        if self.job.recipe.train.scheduled_sampling is None:  # which raises the loss by itself
            values = (value if isfinite(value) else None for value in (metrics.loss, metrics.gradient_norm))
            warning = self.divergence.metrics(metrics.step, *values)
            if warning:
                self.progress.say(warning)
        self.callbacks.metrics(metrics)

    def measured(self, record: Record) -> None:
        """Record a measurement of the instruments."""
        self.progress.measured(record)
        self.divergence.measured(record)

    def validate(self) -> Mapping[str, float]:
        """Evaluate the model on the validation corpora."""
        with nullcontext() if self.job.adapter is None else self.job.adapter.merged():
            return self.validator()

    def validated(self, position: Position, scores: Mapping[str, float], best: bool) -> None:
        """Show the scores, and save the model if it is the best one so far."""
        self.progress.validation(position.step, scores, best)
        self.progress.samples(position.step, self.validator.samples)
        if best:
            self.job.write_in(self.run)
            tokens = f"{position.tokens:,} {self.job.recipe.rules.tokens}"
            made = f"{position.step:,} updates, {tokens}, the best model so far"
            self._write_card(self.run, made, scores)
            _discard(self.run / SINGLE)  # an averaged run was continued, and found a better model
        if self.report:
            self.report.rewrite()
        self.callbacks.validation(Validation(position.step, scores, best))

    def not_finite(self, step: int, message: str, record: Mapping[str, Any]) -> None:
        """Show which updates were not applied, or a return because of them, and record it."""
        if message:
            self.progress.say(message)
        self.progress.record(step, record)

    def name_rows(self, rows: Indices) -> list[str]:
        """Return the files and lines of rows."""
        return self.job.prepared.name_rows(rows)

    def return_before(self, step: int) -> Position | None:
        """Restore the last checkpoint before a step, and drop what was recorded after it."""
        job, saved = self.job, last_checkpoints(self.run / CHECKPOINTS, sys.maxsize)
        for path in [one for one in reversed(saved) if step_of(one) < step]:
            with suppress(UserError):  # a damaged one: the one before may not be
                position = load_checkpoint(path, job.trained, job.optimizer, job.objective)
                self.progress.begin(self.run, position.step, job.recipe.rules.tokens)
                return position
        return None

    def checkpoint(self, position: Position) -> None:
        """Save a checkpoint to resume from."""
        job, retention = self.job, retention_of(self.job.recipe)
        if position.not_finite.get("streak"):  # the run may return to one that would be removed now
            retention = replace(retention, last=sys.maxsize)
        self.progress.sync()  # first: a run that resumes from this checkpoint keeps the lines up to it
        saved = save_checkpoint(self.run / CHECKPOINTS, job.trained, job.optimizer, position, retention, job.objective)
        if self.stop.saving:
            self.progress.say(f"Checkpoint saved at step {position.step:,}, as SIGUSR1 requested")
        self.callbacks.checkpoint(Checkpoint(position.step, saved))


def build_trainer(
    job: Job,
    observer: Observer,
    after_update: Callable[[int], None] = lambda step: None,
    measured: Callable[[Record], None] | None = None,
) -> Trainer[Any]:
    """Build the training loop of a job from its recipe; `after_update` is called with the number of each step.

    `measured` is called with what the instruments record; without it, nothing is measured.
    """
    train = job.recipe.train
    settings = TrainerSettings(
        steps=train.steps,
        accumulate=train.accumulate,
        clip_norm=train.clip_norm,
        seed=train.seed,
        log_every=train.log_every,
        checkpoint_every=train.checkpoint_every,
        validate_every=train.validation.every,
        patience=train.validation.patience,
        higher_is_better=higher_is_better(job.recipe),
        in_a_row=train.not_finite.in_a_row,
        returns=train.not_finite.returns,
    )
    table, instruments = train.instruments, None
    if table is not None and measured is not None:
        instruments = Instruments(table, job.model, job.objective, job.feed, job.device, measured)
    rate = build_run_rate(train.schedule, train.warmup, train.optimizer, job.recipe.model.width, train.steps)
    return Trainer(
        job.model, job.objective, job.optimizer, rate, job.feed, job.device,
        settings, observer, choose_computation(job), _before_update(job), after_update, instruments,
    )  # fmt: skip


def _before_update(job: Job) -> Callable[[int], None]:
    """Return what is done before each update: set the probability of scheduled sampling, end the wait of Adam-2k."""
    decoder, sampling = getattr(job.model, "decoder", None), job.recipe.train.scheduled_sampling
    decay = None if sampling is None else build_decay(sampling)
    warmup = job.recipe.train.warmup
    # The momentum of a wait changes no weight, so that it is enough to forget it once: before the first real update.
    forgets_at = warmup.steps if isinstance(warmup, Wait) and not warmup.momentum else None

    def prepare(step: int) -> None:
        if decay is not None and isinstance(decoder, RecurrentDecoder):
            decoder.own_share = 1 - decay(step)
        if step == forgets_at:
            forget_momentum(job.optimizer)

    return prepare


def choose_computation(job: Job) -> UpdateComputationFactory[Any]:
    """Choose how updates are computed: captured if all batches have one shape, and compiled if requested.

    With `compile = "auto"`, captured updates are not compiled: with our own kernels a compiler gains little and takes
    minutes. Neither are deterministic ones, as a compiler times kernels, nor networks of the caller's program, nor
    those with an adapter, whose weights are exchanged in each pass.
    """
    train, static, own = job.recipe.train, job.feed.static is not None, handed_over().network is not None
    if train.capture is True and not static:
        raise UserError(
            "`train.capture` is true, but only batches of one shape can be captured, which requires a GPU, bfloat16 "
            "and attention without padding: leave it out."
        )
    captured = static and (train.capture is True or (train.capture is not False and not own))
    computation = CapturedUpdates if captured else EagerUpdates
    by_default = static and not (captured or train.deterministic or own or job.adapter)
    if not (by_default if train.compile == "auto" else train.compile):
        return computation

    def compiled(
        batch_loss: BatchLoss[Any], optimizer: torch.optim.Optimizer, clip_norm: float | None, device: torch.device
    ) -> EagerUpdates[Any]:
        return computation(torch.compile(batch_loss, dynamic=not static), optimizer, clip_norm, device)

    return compiled


def checkpoints_to_average(folder: Path, average: Average, recipe: Recipe) -> list[Path]:
    """Return the last or best checkpoints of a run: the requested number, or all if there are fewer."""
    if average.best is not None:
        return best_checkpoints(folder, average.best, higher_is_better(recipe))
    return last_checkpoints(folder, average.last or 1)


def retention_of(recipe: Recipe) -> Retention:
    """Return which checkpoints a run keeps: the last ones, and those that it may average."""
    train, averaged = recipe.train, recipe.train.average or Average(last=1)
    last = max(train.keep_checkpoints, averaged.last or 1)
    return Retention(last, averaged.best or 0, higher_is_better(recipe), train.checkpoint_every)


def _discard(folder: Path) -> None:
    if folder.exists():
        remove_folder(folder)


def higher_is_better(recipe: Recipe) -> bool:
    """Whether a higher value of the validation metric is better."""
    return recipe.rules.metrics[recipe.train.validation.metric] == "higher"
