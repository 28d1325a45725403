"""Training of a model from a recipe into a run folder, from the start or from the last checkpoint."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from rich.console import Console

from heedful.base.cores import usable_cores
from heedful.base.devices import choose_device, keep_freed_memory, make_deterministic
from heedful.base.errors import UserError, memory_faults
from heedful.base.files import output_folder
from heedful.base.notes import listening
from heedful.config.recipe import Recipe
from heedful.data.epochs.bpe_dropout import redraw_rows
from heedful.data.prepare.settled import settle_corpora, with_forms_of
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.defaults.apply import describe_defaults, with_followed_defaults, with_values_of
from heedful.metrics.own_metrics import Metrics
from heedful.models.bundle import CONFIG, base_of, read_description, read_recipe
from heedful.models.from_recipe.initialization import initialize
from heedful.models.networks import Network
from heedful.models.own_parts import OwnParts, build_own_or_usual, hand_over, handed_over
from heedful.runs.callbacks import Callback, Callbacks
from heedful.runs.fine_tuning import read_start, start_as_student
from heedful.runs.job import Job
from heedful.runs.progress import RunProgress
from heedful.runs.run import RunObserver
from heedful.runs.run_folder import RunLock, begin_run, clear, find_checkpoint, forget_lost_model, resumed_recipe
from heedful.tasks.loading import find_task
from heedful.tasks.shared.task import Task
from heedful.training.objectives import Adapted
from heedful.training.optimizers.build import build_optimizer, freeze, layer_scales
from heedful.training.remedies import as_student, read_teacher, with_remedies
from heedful.training.seeding import seed_for
from heedful.training.signals import StopRequest


def recipe_of_run(run: Path, recipe: Recipe, resume: bool) -> Recipe:
    """Return the recipe with the defaults that follow its run: those of the run that it resumes, or of its data."""
    if resume and (run / CONFIG).exists():
        begun = read_recipe(run, recipe.given_rules)
        return with_values_of(with_forms_of(recipe, begun), begun)
    return with_followed_defaults(settle_corpora(recipe))


def train(
    recipe: Recipe,
    out: str | Path,
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
    with (
        hand_over(own or OwnParts()),
        StopRequest() as stop,
        RunLock(run) as lock,
        RunProgress(console) as progress,
        listening(progress.say),
    ):
        checkpoint = find_checkpoint(run, recipe, resume)
        set_up(recipe)
        scored_alike = bool(checkpoint) and read_recipe(run, recipe.given_rules).evaluate == recipe.evaluate
        if checkpoint:
            vocabularies = read_description(run, recipe.given_rules)[1]
            job = prepare_job(resumed_recipe(run, recipe), progress, task, vocabularies, base_of(run))
            position = job.resume(checkpoint, progress)
            forget_lost_model(run, position, job.recipe.train.steps, progress.say)
            progress.say(f"Resuming {run} from step {position.step:,}, epoch {position.epoch + 1:,}")
        else:
            for line in (*warnings(), *filter(None, [recipe.held_out, describe_defaults(recipe)])):
                progress.say(line)
            job = prepare_job(recipe, progress, task)
            with memory_faults(memory_advice(job.recipe)):
                position = job.begin()
        running = RunObserver(job, run, progress, stop, heeded, metrics)
        if lock.take() and find_checkpoint(run, recipe, resume):
            raise UserError(f"{run} was created by another process in the meantime: run the same command again.")
        clear(run)
        if not checkpoint:
            if resume:
                progress.say(f"{run} has no checkpoint: training starts from the beginning.")
            begin_run(run)
        job.describe_in(run)  # a resumed run may differ in `steps` or [decode]
        progress.begin(run, position.step, job.recipe.rules.tokens)
        progress.say(job.description())
        if scored_alike:
            running.keep_line()
        with memory_faults(memory_advice(job.recipe)):
            running.to_the_end(position)
    return run


def prepare_job(
    recipe: Recipe,
    progress: RunProgress,
    task: Task | None = None,
    resumed: Vocabularies | None = None,
    base: str | None = None,
) -> Job:
    """Read the data and build the model, with initial weights or those of the model that the recipe starts from.

    `resumed` are the vocabularies of a run that continues: it reads its weights from a checkpoint, but those that it
    adapts from its base, whose weights have the sha256 `base`.
    """
    own, start, vocabularies = handed_over(), None, resumed
    if resumed is None and recipe.train.start_from:
        if own.network is not None or own.tokenizer is not None:
            which = "tokenizer" if own.network is None else "network"
            raise UserError(f"`{which}` cannot be combined with `train.start_from`, which has its own: leave one out.")
        start = read_start(recipe)
        recipe, vocabularies = start.recipe, replace(start.vocabularies, to_learn=start.recipe.tokenizer.extend or 0)
        progress.say(f"Starting from {recipe.train.start_from}: its weights and its vocabulary")
        for difference in start.differences:
            progress.say(f"  {difference}")
    elif base is not None:
        start = read_start(recipe, base)
    elif resumed is None:
        vocabularies = own.vocabularies(recipe)
        if vocabularies is None:
            recipe, vocabularies = as_student(recipe)

    device, task = choose_device(recipe.train.device), find_task(recipe, task)
    prepared = task.prepare(recipe, vocabularies, progress.say)
    if device.index is not None:  # "cuda:1"
        torch.cuda.set_device(device)
    torch.manual_seed(seed_for(recipe.train.seed, "weights"))
    model = cast(Network, build_own_or_usual(recipe, prepared.vocabularies))
    initialize(model, recipe.train.initialization)
    model = model.to(device)
    freeze(model, recipe.train.freeze)
    adapter = start.adapter_of(model, seed_for(recipe.train.seed, "adapter")) if start is not None else None
    scales = layer_scales(model, recipe.train.layer_decay)
    optimizer = build_optimizer(recipe.train.optimizer, adapter or model, scales, recipe.train.moving_average)
    teacher = read_teacher(recipe, prepared.vocabularies, device)
    if teacher is not None:
        weights = ", its weights" if teacher.gives_start else ""
        progress.say(f"Learning from {teacher.folder} too: its probabilities{weights} and its vocabulary")
    network = None if teacher is None else teacher.network
    objective = with_remedies(task.objective(recipe, prepared), recipe.train, network)
    feed = redraw_rows(task.feed(recipe, prepared), recipe, prepared.vocabularies)
    if adapter is not None:
        objective = Adapted(objective, adapter)
    elif start is not None:
        start.into(model, prepared.vocabularies)
    elif resumed is None and teacher is not None and teacher.gives_start:
        start_as_student(model, recipe, teacher)
    elif resumed is None:
        task.set_weights(model, recipe, prepared)
    base = start.base if start is not None and adapter is not None else None
    return Job(
        recipe, task, prepared, device, model, optimizer, objective, feed, teacher=teacher, adapter=adapter, base=base
    )


def set_up(recipe: Recipe) -> None:
    """Set the threads, determinism and memory settings of the process, as the recipe requests."""
    keep_freed_memory()
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    elif "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(min(usable_cores(), torch.get_num_threads()))  # torch knows no container's quota
    if recipe.train.deterministic:
        make_deterministic()


def memory_advice(recipe: Recipe) -> str:
    """Return what to do if the memory is full while a recipe is trained: the keys that decide how much is needed."""
    accumulate = recipe.train.accumulate
    return (
        f"`data.batch_tokens = {recipe.data.batch_tokens}` is too much for this model: lower it (and raise "
        f"`train.accumulate = {accumulate}` by the same factor), or make the model smaller"
    )
