"""The micro-batches of a run's first epoch and their lengths, whatever the task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.data.epochs.loader import RowFeed, TrainingFeed

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


def plan_epoch(feed: TrainingFeed[Any]) -> list[PlannedBatch]:
    """Return the micro-batches of the first epoch, in order."""
    return [PlannedBatch(planned, _lengths(feed, planned)) for planned in feed.plan(0)]


def total(batches: Sequence[PlannedBatch], side: int) -> Lengths:
    """Return the lengths of all rows on a side."""
    return np.concatenate([batch.lengths[side] for batch in batches])


def _lengths(feed: TrainingFeed[Any], planned: Any) -> tuple[Lengths, ...]:
    if isinstance(feed, RowFeed):
        return tuple(feed.collator.costs(feed.stores, planned))
    return (planned.lengths,)  # stretches of documents know their lengths
