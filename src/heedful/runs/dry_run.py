"""An estimate of the cost of a run from a few real steps: ten of them extrapolated, or updates timed one by one."""

import time
from dataclasses import replace
from itertools import pairwise
from typing import Final

import torch
from rich.console import Console

from heedful.config.recipe import Recipe
from heedful.doctor.estimates.plan import Forecast
from heedful.runs.progress import RunProgress
from heedful.runs.run import build_trainer, retention_of
from heedful.runs.training_run import prepare_job, set_up
from heedful.training.signals import StopRequest
from heedful.training.trainer import Observer, StepMetrics

_TRIAL_STEPS: Final = 10
_NEVER: Final = 1 << 40  # updates between validations or checkpoints that a trial does not make


def dry_run(recipe: Recipe, console: Console | None = None) -> Forecast:
    """Train ten steps without writing anything, and estimate what the whole run would take.

    The steps before them, which compile and allocate, do not count.
    """
    with RunProgress(console) as progress:
        set_up(recipe)
        job = prepare_job(recipe, progress)
        position, train = job.begin(), job.recipe.train
        progress.say(f"{job.description()}; ten steps ...")
        trainer = build_trainer(job, Observer())
        trainer.settings = replace(trainer.settings, steps=2)
        trainer.run(position, StopRequest())
        began, seen = time.perf_counter(), position.tokens
        trainer.settings = replace(trainer.settings, steps=2 + _TRIAL_STEPS)
        trainer.run(position, StopRequest())
        if job.device.type == "cuda":
            torch.cuda.synchronize()
        seconds, tokens = time.perf_counter() - began, position.tokens - seen
        in_epoch = job.task.epoch_tokens(job.recipe, job.prepared)
        parameters = sum(p.numel() for p in job.model.parameters())
        retention, bundles = retention_of(job.recipe), 2 if train.average else 1  # the mean and the best single model
        return Forecast(
            parameters=parameters,
            tokens_per_second=tokens / seconds,
            updates=train.steps,
            seconds=seconds / _TRIAL_STEPS * train.steps,
            epochs=tokens / _TRIAL_STEPS * train.steps / in_epoch,
            checkpoint_bytes=4 * parameters * (3 * (retention.last + retention.best) + bundles),
            peak_gpu_bytes=torch.cuda.max_memory_allocated() if job.device.type == "cuda" else None,
        )


class _Clock(Observer):
    """Reads the clock whenever metrics are logged, when the device has finished."""

    def __init__(self) -> None:
        self.read: list[float] = []

    def step_metrics(self, metrics: StepMetrics, logged: bool) -> None:
        if logged:
            self.read.append(time.perf_counter())


def time_updates(recipe: Recipe, stretches: int, updates: int, console: Console | None = None) -> list[float]:
    """Train without writing anything, and return the seconds of an update in each stretch of this many updates.

    A stretch before them, in which kernels are compiled and memory is allocated, does not count.
    """
    with RunProgress(console) as progress:
        set_up(recipe)
        job = prepare_job(recipe, progress)
        position, clock = job.begin(), _Clock()
        trainer = build_trainer(job, clock)
        trainer.settings = replace(
            trainer.settings,
            steps=(stretches + 1) * updates,
            log_every=updates,
            checkpoint_every=_NEVER,
            validate_every=_NEVER,
            patience=None,
        )
        trainer.run(position, StopRequest())
        return [(after - before) / updates for before, after in pairwise(clock.read)]
