"""The parts of a run, and how they begin or resume; `training_run.py` makes them from a recipe."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from heedful.base.devices import PRECISIONS, choose_precision
from heedful.base.errors import UserError, counted
from heedful.config.recipe import Recipe
from heedful.data.epochs.loader import TrainingFeed
from heedful.data.epochs.plan import ORDER
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.recorded_results import cpu_name
from heedful.models.adapters.low_rank import Adapter
from heedful.models.bundle import write_adapter, write_description, write_weights
from heedful.models.networks import Network, set_precision
from heedful.runs.progress import RunProgress
from heedful.tasks.shared.loaded_model import describe_size
from heedful.tasks.shared.task import Task
from heedful.training.checkpoints import (
    DamagedCheckpointError,
    Position,
    checkpoints_instead_of,
    load_checkpoint,
    step_of,
    way_out_of_resuming,
)
from heedful.training.objectives import Objective
from heedful.training.remedies import Teacher

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
    adapter: Adapter | None = None  # what is trained of the model; None if all of it is
    base: str | None = None  # sha256 of the weights that are adapted

    @property
    def trained(self) -> nn.Module:
        """What has the weights that are trained, saved in checkpoints and averaged: the adapter, or the model."""
        return self.adapter or self.model

    def describe_in(self, folder: Path) -> None:
        """Write the config and the vocabularies of the model into a folder, or those of the adapter."""
        write_description(folder, self.recipe, self.vocabularies, self.base)

    def write_in(self, folder: Path) -> None:
        """Write the weights into a folder: those of the adapter, if there is one."""
        if self.adapter is None:
            write_weights(folder, self.model)
        else:
            write_adapter(folder, self.adapter)

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
        """Restore weights, optimizer, position, precision and threads from a checkpoint, or the newest sound one."""
        checkpoint, position = self._load(checkpoint, progress)
        facts = position.facts
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

    def _load(self, checkpoint: Path, progress: RunProgress) -> tuple[Path, Position]:
        """Load a checkpoint; if it is damaged, load the one before and say what that costs."""
        damaged: list[DamagedCheckpointError] = []
        for path in (checkpoint, *checkpoints_instead_of(checkpoint)):
            try:
                position = load_checkpoint(path, self.trained, self.optimizer, self.objective)
                _refuse_odd_facts(position.facts, path)
            except DamagedCheckpointError as error:
                damaged.append(error)
                continue
            if damaged:
                more = "" if len(damaged) == 1 else f", and {counted(len(damaged) - 1, 'more checkpoint')} too"
                updates = max(step_of(checkpoint) - position.step, 0)
                costs = counted(updates, "update") if updates else "no update"
                progress.say(f"{damaged[0].what}{more}: the run falls back on {path.name}, which costs {costs}")
            return path, position
        if len(damaged) > 1:
            others = counted(len(damaged) - 1, "other checkpoint")
            raise DamagedCheckpointError(f"{damaged[0].what}, and {others} too", "train again into another folder.")
        raise damaged[0]

    def description(self) -> str:
        """Return a line about the model and its device."""
        cpu = f"CPU, {counted(torch.get_num_threads(), 'thread')}"
        where = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else cpu
        size = describe_size(self.model, self.vocabularies)
        if self.adapter is not None:
            own, whole = (sum(p.numel() for p in part.parameters()) for part in (self.adapter, self.model))
            size += f"; an adapter of {own:,} parameters, {own / whole:.2%}"
        return f"{self.recipe.model.family}: {size}; {where}, {self._precision_name}"

    @property
    def _precision_name(self) -> str:
        return str(self.precision or torch.float32).removeprefix("torch.")

    def _facts(self) -> dict[str, Any]:
        return {
            "data": [store.key for store in self.prepared.train],
            "precision": self._precision_name,
            "threads": torch.get_num_threads(),
            "device": self.device.type,
            "torch": torch.__version__,
            "order": ORDER,
            "machine": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else cpu_name(),
            **({} if self.teacher is None else {"teacher": self.teacher.fingerprint}),
        }

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
            readers = [self.recipe] if self.teacher is None else [self.recipe, self._as_taught(self.teacher)]
            shapes = [self.task.static_shape(recipe, precision) for recipe in readers]
            self.feed = self.feed.placed(None if None in shapes else shapes[0], pin=True)

    def _as_taught(self, teacher: Teacher) -> Recipe:
        """Return the recipe with the model of the teacher, which reads the same batches."""
        return self.recipe.model_copy(update={"model": teacher.recipe.model})


def _refuse_odd_facts(facts: Mapping[str, Any], checkpoint: Path) -> None:
    """Refuse facts of a checkpoint that no run of ours records."""
    data, precision, threads = facts.get("data"), facts.get("precision"), facts.get("threads")
    hashes = isinstance(data, list) and all(isinstance(key, str) for key in data)
    counted_threads = type(threads) is int and 1 <= threads <= _MOST_THREADS
    for key, fits, must in (
        ("data", hashes, "a list of hashes"),
        ("precision", isinstance(precision, str) and precision in PRECISIONS, f"one of {', '.join(PRECISIONS)}"),
        ("threads", counted_threads, f"a whole number from 1 to {_MOST_THREADS:,}"),
    ):
        if not fits:
            here = json.dumps(facts[key])[:40] if key in facts else "missing"
            raise DamagedCheckpointError(
                f"{checkpoint / 'position.json'}: `facts.{key}` is {here}, but must be {must}",
                f"the checkpoint is damaged, {way_out_of_resuming(checkpoint)}",
            )
