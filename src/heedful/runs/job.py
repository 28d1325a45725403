"""The parts of a run, built from a recipe before its first step."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import torch

from heedful.base.cores import usable_cores
from heedful.base.devices import PRECISIONS, choose_device, choose_precision, keep_freed_memory, make_deterministic
from heedful.base.errors import UserError, counted
from heedful.config.recipe import Recipe
from heedful.data.batch_layout import StaticShape
from heedful.data.epochs.loader import TrainingFeed
from heedful.data.epochs.plan import ORDER
from heedful.data.epochs.redrawn import redraw_rows
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.recorded_results import cpu_name
from heedful.models.from_recipe.initialization import initialize
from heedful.models.networks import Network, set_precision
from heedful.models.own_parts import build_own_or_usual, handed_over
from heedful.runs.fine_tuning import read_start
from heedful.runs.progress import RunProgress
from heedful.tasks.shared.loaded_model import describe_size
from heedful.tasks.shared.task import Task
from heedful.tasks.table import find_task
from heedful.training.checkpoints import Position, load_checkpoint, way_out_of_resuming
from heedful.training.objectives import Objective
from heedful.training.optimizers.build import build_optimizer, freeze, layer_scales
from heedful.training.remedies.build import with_remedies
from heedful.training.remedies.distillation import Teacher, as_student, read_teacher
from heedful.training.seeding import seed_for

_MOST_THREADS: Final = 4096


@dataclass
class Job:
    """The parts of a run: data, model, optimizer, objective and batches."""

    recipe: Recipe
    task: Task
    prepared: Prepared
    device: torch.device
    model: Network
    optimizer: torch.optim.Optimizer
    objective: Objective[Any]
    feed: TrainingFeed[Any]
    precision: torch.dtype | None = None
    teacher: Teacher | None = None

    @classmethod
    def prepare(
        cls, recipe: Recipe, vocabularies: Vocabularies | None, progress: RunProgress, task: Task | None = None
    ) -> "Job":
        """Read the data and build the model."""
        device, task = choose_device(recipe.train.device), find_task(recipe, task)
        prepared = task.prepare(recipe, vocabularies, progress.say)
        if device.index is not None:  # "cuda:1"
            torch.cuda.set_device(device)
        torch.manual_seed(seed_for(recipe.train.seed, "weights"))
        model = cast(Network, build_own_or_usual(recipe, prepared.vocabularies))
        initialize(model, recipe.train.initialization)
        model = model.to(device)
        freeze(model, recipe.train.freeze)
        scales = layer_scales(model, recipe.train.layer_decay)
        optimizer = build_optimizer(recipe.train.optimizer, model, scales, recipe.train.moving_average)
        teacher = read_teacher(recipe, prepared.vocabularies, device)
        if teacher is not None:
            progress.say(f"Learning from {teacher.folder} too: its probabilities and its vocabulary")
        network = None if teacher is None else teacher.network
        objective = with_remedies(task.objective(recipe, prepared), recipe.train, network)
        feed = redraw_rows(task.feed(recipe, prepared), recipe, prepared.vocabularies)
        return cls(recipe, task, prepared, device, model, optimizer, objective, feed, teacher=teacher)

    @property
    def vocabularies(self) -> Vocabularies:
        """Vocabularies by name, and the names of classes."""
        return self.prepared.vocabularies

    def begin(self) -> Position:
        """Choose the precision, if the recipe leaves it open, and return the first position."""
        batch = self.feed.batch(next(iter(self.feed.plan(0))))  # made once, so that trials time the model alone

        def trial(precision: torch.dtype) -> None:
            set_precision(self.model, precision)
            self.objective(self.model, batch).loss.backward()
            self.optimizer.zero_grad()

        self._use(choose_precision(self.recipe.train.precision, self.device, trial))
        self._count_epochs()
        return Position(facts=self._facts())

    def resume(self, checkpoint: Path, progress: RunProgress) -> Position:
        """Restore weights, optimizer, position, precision and threads from a checkpoint."""
        position = load_checkpoint(checkpoint, self.model, self.optimizer, self.objective)
        facts = position.facts
        _refuse_odd_facts(facts, checkpoint)
        if facts["data"] != self._facts()["data"]:
            raise UserError(
                f"The training data is not the data that {checkpoint} was trained on: its order would be different. "
                "Restore the files, or train into another folder."
            )
        torch.set_num_threads(facts["threads"])
        self._use(PRECISIONS[facts["precision"]])
        self._count_epochs()
        here = self._facts()
        for name in ("device", "torch", "order", "teacher"):
            was, now = facts.get(name), here.get(name)
            if was != now:
                progress.say(f"{name} was {was} and is {now}: the run continues, but is no longer bit-identical")
        return position

    def description(self) -> str:
        """Return a line about the model and its device."""
        where = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else _cpu_name()
        return (
            f"{self.recipe.model.family}: {describe_size(self.model, self.vocabularies)}; "
            f"{where}, {_name(self.precision or torch.float32)}"
        )

    def _facts(self) -> dict[str, Any]:
        return {
            "data": [store.key for store in self.prepared.train],
            "precision": _name(self.precision or torch.float32),
            "threads": torch.get_num_threads(),
            "device": self.device.type,
            "torch": torch.__version__,
            "order": ORDER,
            "machine": self._machine(),
            **({} if self.teacher is None else {"teacher": self.teacher.fingerprint}),
        }

    def _machine(self) -> str:
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else cpu_name()

    def _count_epochs(self) -> None:
        """Work out how many updates the recipe's epochs are: those of the first epoch, times their number."""
        train = self.recipe.train
        if train.epochs is not None:
            batches = sum(1 for _ in self.feed.plan(0))
            updates = -(-batches // train.accumulate)  # the last update of an epoch may be smaller
            self.recipe = self.recipe.model_copy(update={"train": train.in_steps(updates)})

    def _use(self, precision: torch.dtype) -> None:
        self.precision = precision
        set_precision(self.model, precision)
        if self.teacher is not None:
            set_precision(self.teacher.network, precision)
        if self.device.type == "cuda":
            self.feed = self.feed.placed(self._static_shape(precision), pin=True)

    def _static_shape(self, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of all batches; None if the model or its teacher has to read them as they are."""
        shape = self.task.static_shape(self.recipe, precision)
        if shape is None or self.teacher is None:
            return shape
        as_taught = self.recipe.model_copy(update={"model": self.teacher.recipe.model})
        return None if self.task.static_shape(as_taught, precision) is None else shape


def first_job(recipe: Recipe, progress: RunProgress, task: Task | None = None) -> "Job":
    """Prepare a job at its first step: with initial weights, or with those of the model that the recipe starts from."""
    own = handed_over()
    if not recipe.train.start_from:
        given = own.vocabularies(recipe)
        student, taught = (recipe, None) if given is not None else as_student(recipe)
        job = Job.prepare(student, given or taught, progress, task)
        job.task.set_weights(job.model, job.recipe, job.prepared)
        return job
    if own.network is not None or own.tokenizer is not None:
        which = "tokenizer" if own.network is None else "network"
        raise UserError(f"`{which}` cannot be combined with `train.start_from`, which has its own: leave one out.")
    start = read_start(recipe)
    progress.say(f"Starting from {recipe.train.start_from}: its weights and its vocabulary")
    for difference in start.differences:
        progress.say(f"  {difference}")
    job = Job.prepare(start.recipe, start.vocabularies, progress, task)
    start.into(job.model)
    return job


def memory_advice(recipe: Recipe) -> str:
    """Return what to do if the memory is full while a recipe is trained: the keys that decide how much is needed."""
    accumulate = recipe.train.accumulate
    return (
        f"`data.batch_tokens = {recipe.data.batch_tokens}` is too much for this model: lower it (and raise "
        f"`train.accumulate = {accumulate}` by the same factor), or make the model smaller"
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


def _refuse_odd_facts(facts: Mapping[str, Any], checkpoint: Path) -> None:
    """Refuse facts of a checkpoint that no run of ours records."""
    data, precision, threads = facts.get("data"), facts.get("precision"), facts.get("threads")
    odd = {
        "data": not isinstance(data, list) or not all(isinstance(key, str) for key in data),
        "precision": not isinstance(precision, str) or precision not in PRECISIONS,
        "threads": type(threads) is not int or not 1 <= threads <= _MOST_THREADS,
    }
    key = next((key for key in odd if odd[key]), None)
    if key:
        must = {
            "data": "a list of hashes",
            "precision": f"one of {', '.join(PRECISIONS)}",
            "threads": f"a whole number from 1 to {_MOST_THREADS:,}",
        }
        here = json.dumps(facts[key])[:40] if key in facts else "missing"
        raise UserError(
            f"{checkpoint / 'position.json'}: `facts.{key}` is {here}, but must be {must[key]}: the checkpoint is "
            f"damaged, {way_out_of_resuming(checkpoint)}"
        )


def _name(precision: torch.dtype) -> str:
    return str(precision).removeprefix("torch.")


def _cpu_name() -> str:
    return f"CPU, {counted(torch.get_num_threads(), 'thread')}"
