"""Training of a model from a recipe into a run folder, from the start or from the last checkpoint."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from heedful.base.errors import UserError, memory_faults
from heedful.base.files import output_folder
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.defaults.apply import describe_defaults
from heedful.metrics.own_metrics import Metrics
from heedful.models.bundle import read_description, write_description
from heedful.models.own_parts import OwnParts, hand_over
from heedful.runs.callbacks import Callback, Callbacks
from heedful.runs.job import Job, first_job, memory_advice, set_up
from heedful.runs.progress import RunProgress
from heedful.runs.run import RunObserver
from heedful.runs.run_folder import RunLock, begin_run, clear, find_checkpoint, resumed_recipe
from heedful.tasks.shared.task import Task
from heedful.training.signals import StopRequest


def train(
    recipe: Recipe | str | Path,
    out: str | Path,
    overrides: Sequence[str] = (),
    resume: bool = False,
    console: Console | None = None,
    task: Task | None = None,
    callbacks: Sequence[Callback] = (),
    metrics: Metrics | None = None,
    own: OwnParts | None = None,
    warnings: Callable[[], Sequence[str]] = lambda: (),
) -> Path:
    """Train a model and return its run folder: `heedful.train` is this and more (`runs/train.py`).

    With `resume`, continue from the run folder's last checkpoint, bit-identical to an uninterrupted run. `task` is one
    of your own, if what the model is trained for is not one of Heedful's tasks; `metrics` and `own` are the caller's
    metrics, which the rules of the recipe know, and parts of the model. `warnings` returns what to say of the data of a
    new run.
    """
    run, heeded = output_folder(out), Callbacks(callbacks)
    if isinstance(recipe, Recipe) and overrides:
        raise TypeError("overrides change a recipe that is read from a file; give the changed Recipe instead")
    rules = None if task is None else task.rules
    resolved = recipe if isinstance(recipe, Recipe) else load_recipe(recipe, overrides, rules)
    with (
        hand_over(own or OwnParts()),
        StopRequest() as stop,
        RunLock(run) as lock,
        RunProgress(console) as progress,
    ):
        checkpoint = find_checkpoint(run, resolved, resume)
        set_up(resolved)
        if checkpoint:
            job = Job.prepare(resumed_recipe(run, resolved), read_description(run, rules)[1], progress, task)
            position = job.resume(checkpoint, progress)
            progress.say(f"Resuming {run} from step {position.step:,}, epoch {position.epoch + 1:,}")
        else:
            for line in (*warnings(), *filter(None, [describe_defaults(resolved)])):
                progress.say(line)
            job = first_job(resolved, progress, task)
            with memory_faults(memory_advice(job.recipe)):
                position = job.begin()
        running = RunObserver(job, run, progress, stop, heeded, metrics)
        if lock.take() and find_checkpoint(run, resolved, resume):
            raise UserError(f"{run} was created by another process in the meantime: run the same command again.")
        clear(run)
        if not checkpoint:
            if resume:
                progress.say(f"{run} has no checkpoint: training starts from the beginning.")
            begin_run(run)
        write_description(run, job.recipe, job.vocabularies)  # a resumed run may differ in `steps` or [decode]
        progress.begin(run, position.step, job.recipe.rules.tokens)
        progress.say(job.description())
        with memory_faults(memory_advice(job.recipe)):
            running.to_the_end(position)
    return run
