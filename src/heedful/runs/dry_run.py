"""An estimate of the cost of a run: ten real steps, extrapolated."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import torch
from rich.console import Console

from heedful.config.recipe import Recipe
from heedful.doctor.estimates.plan import Forecast
from heedful.runs.job import Job
from heedful.runs.progress import RunProgress
from heedful.runs.run import build_trainer, retention_of
from heedful.runs.training_run import prepare_job, set_up
from heedful.training.checkpoints import Position
from heedful.training.signals import StopRequest
from heedful.training.trainer import StepMetrics

_TRIAL_STEPS: Final = 10


def dry_run(recipe: Recipe, console: Console | None = None) -> Forecast:
    """Train ten steps without writing anything, and estimate what the whole run would take."""
    with RunProgress(console) as progress:
        set_up(recipe)
        job = prepare_job(recipe, progress)
        position = job.begin()
        progress.say(f"{job.description()}; ten steps ...")
        return _Trial(job).forecast(position)


class _Trial:
    """An observer of the trainer that writes and shows nothing."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def forecast(self, position: Position) -> Forecast:
        """Train a few steps and extrapolate; the first ones, which compile and allocate, do not count."""
        job, train = self.job, self.job.recipe.train
        trainer = build_trainer(job, self)
        trainer.settings = replace(trainer.settings, steps=2)
        trainer.run(position, StopRequest())
        began, seen = time.perf_counter(), position.tokens
        trainer.settings = replace(trainer.settings, steps=2 + _TRIAL_STEPS)
        trainer.run(position, StopRequest())
        if job.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        tokens = position.tokens - seen
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

    def step_metrics(self, metrics: StepMetrics, logged: bool) -> None:
        """Show nothing."""

    def validate(self) -> Mapping[str, float]:
        """Evaluate nothing."""
        return {}

    def validated(self, position: Position, scores: Mapping[str, float], best: bool) -> None:
        """Keep nothing."""

    def checkpoint(self, position: Position) -> None:
        """Save nothing."""
