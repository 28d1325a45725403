"""The micro-batches of a run's first epoch, whatever the task, and what bounds the speed of the run."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.config.model.mixed import PairModel
from heedful.config.recipe import Recipe
from heedful.data.epochs.loader import RowFeed, TrainingFeed
from heedful.data.prepare.prepared import Prepared
from heedful.doctor.estimates.flops import STEP, forward_flop

Lengths = NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class PlannedBatch:
    """A micro-batch before it is made."""

    planned: Any  # what the feed makes it of
    lengths: tuple[Lengths, ...]  # of its rows in tokens, markers included, for each side

    @property
    def size(self) -> tuple[int, int]:
        """The tokens of all sides, and of the longest row."""
        return sum(int(side.sum()) for side in self.lengths), int(np.sum(self.lengths, axis=0).max())


def side_names(recipe: Recipe) -> tuple[str, ...]:
    """Return the names of what batches are filled with; an image and what is asked about it count together."""
    return (recipe.rules.tokens,) if recipe.rules.images else recipe.rules.sides


def plan_epoch(feed: TrainingFeed[Any]) -> list[PlannedBatch]:
    """Return the micro-batches of the first epoch, in order."""
    return [PlannedBatch(planned, _lengths(feed, planned)) for planned in feed.plan(0)]


def total(batches: Sequence[PlannedBatch], side: int) -> Lengths:
    """Return the lengths of all rows on a side."""
    return np.concatenate([batch.lengths[side] for batch in batches])


def updates_of(batches: Sequence[PlannedBatch], recipe: Recipe) -> int:
    """Return the number of updates of an epoch; the last one may be smaller."""
    return -(-len(batches) // recipe.train.accumulate)


def flop_per_update(batches: Sequence[PlannedBatch], recipe: Recipe, prepared: Prepared) -> float | None:
    """Return the mean operations of an update; None for a network that does not map one sequence to another."""
    if not isinstance(recipe.model, PairModel):
        return None
    size = prepared.vocabularies["target"].size
    forward = forward_flop(recipe.model, total(batches, 0), total(batches, 1), size)
    return STEP * forward / updates_of(batches, recipe)


def _lengths(feed: TrainingFeed[Any], planned: Any) -> tuple[Lengths, ...]:
    if isinstance(feed, RowFeed):
        return tuple(feed.collator.costs(feed.stores, planned))
    return (planned.lengths,)  # stretches of documents know their lengths


# --- measures how fast a device multiplies matrices: the upper bound for the speed of training ------------------------


_SIZES: Final = {"cpu": 1024, "cuda": 8192}  # large enough to keep the device busy
_SECONDS: Final = 0.3


def measure_matrix_rate(device: torch.device, precision: torch.dtype) -> float:
    """Return the operations per second of a square matrix product, the best over a third of a second."""
    size = _SIZES[device.type]
    left = torch.randn(size, size, device=device).to(precision)
    best, began = time_matrix_product(left), time.perf_counter()
    while time.perf_counter() - began < _SECONDS:
        best = min(best, time_matrix_product(left))
    return 2 * size**3 / best


def time_matrix_product(matrix: torch.Tensor) -> float:
    """Return the seconds that one product of a square matrix with itself takes."""
    _wait_for(matrix.device)
    began = time.perf_counter()
    matrix @ matrix
    _wait_for(matrix.device)
    return time.perf_counter() - began


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# --- what a whole run would take, as a few real steps tell it ---------------------------------------------------------


@dataclass(frozen=True)
class Forecast:
    """An estimate for a whole run."""

    parameters: int  # number of parameters
    tokens_per_second: float
    updates: int  # number of updates of the run
    seconds: float  # duration of the run
    epochs: float  # number of epochs of the run
    checkpoint_bytes: int  # disk space of the run's checkpoints and bundles
    peak_gpu_bytes: int | None  # None on a CPU
