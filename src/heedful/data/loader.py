"""Batches in the order of the plan, from any point of it, made ahead in a background thread."""

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from heedful.data.batches import PairBatch, StaticShape, collate
from heedful.data.plan import Counts, Indices, plan
from heedful.data.store import TokenStore
from heedful.errors import UserError

Batch = TypeVar("Batch")
MadeBatch = TypeVar("MadeBatch", covariant=True)


@runtime_checkable
class Feed(Protocol[MadeBatch]):
    """What a loader serves: the micro-batches of an epoch, and how one is made."""

    def plan(self, epoch: int) -> Sequence[Indices]:
        """The micro-batches of an epoch, in order."""

    def batch(self, indices: Indices) -> MadeBatch:
        """Make one micro-batch."""


@dataclass(frozen=True)
class MicroBatch(Generic[Batch]):
    """A batch and its place: number `index` of the `count` micro-batches of an epoch, all from 0."""

    epoch: int
    index: int
    count: int
    batch: Batch


@dataclass(frozen=True, eq=False)
class PairFeed:
    """Training pairs of one or several weighted stores."""

    stores: Sequence[TokenStore]
    weights: Sequence[float]
    seed: int
    batch_tokens: int
    max_sentences: int | None = None
    static: StaticShape | None = None
    multiple: int = 1  # of tokens, where the shape is not static
    pin: bool = False
    _costs: tuple[Counts, Counts] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_costs", pair_costs(self.stores))

    def plan(self, epoch: int) -> list[Indices]:
        """The micro-batches of an epoch, in order."""
        return plan(
            self._costs,
            [len(store) for store in self.stores],
            self.weights,
            seed=self.seed,
            epoch=epoch,
            batch_tokens=self.batch_tokens,
            max_sentences=self.max_sentences,
        )

    def batch(self, indices: Indices) -> PairBatch:
        """Make one micro-batch."""
        made = collate(self.stores, indices, self.static, self.multiple)
        return made.pin_memory() if self.pin else made


def pair_costs(stores: Sequence[TokenStore]) -> tuple[Counts, Counts]:
    """The tokens of every sentence on the source and on the target side, markers included, through all stores."""
    source, target = (
        np.concatenate([store.lengths(stream) + 1 for store in stores]).astype(np.int32)
        for stream in ("source", "target")
    )
    return source, target


class Loader(Generic[Batch]):
    """Endless micro-batches from (epoch, index) on; close it, or use it in a `with` block."""

    def __init__(self, feed: Feed[Batch], start: tuple[int, int] = (0, 0), ahead: int = 4) -> None:
        self._feed = feed
        self._start = start
        self._ready: queue.Queue[MicroBatch[Batch] | BaseException] = queue.Queue(ahead)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heedful-loader", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Loader[Batch]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> "Loader[Batch]":
        return self

    def __next__(self) -> MicroBatch[Batch]:
        if self._closed.is_set():
            raise StopIteration
        made = self._ready.get()
        if isinstance(made, BaseException):
            self.close()
            raise made
        return made

    def close(self) -> None:
        """Stop the thread and wait for it; may be called twice."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            for made in self._micro_batches():
                if not self._offer(made):
                    return
        except BaseException as error:  # shown where the batches are used
            self._offer(error)

    def _offer(self, made: MicroBatch[Batch] | BaseException) -> bool:
        """Put into the queue as soon as there is room; False when the loader was closed meanwhile."""
        while not self._closed.is_set():
            try:
                self._ready.put(made, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def _micro_batches(self) -> Iterator[MicroBatch[Batch]]:
        epoch, first = self._start
        while True:
            micro_batches = self._feed.plan(epoch)
            if first > len(micro_batches):
                raise UserError(
                    f"Epoch {epoch} has {len(micro_batches):,} micro-batches, but training is to go on at number "
                    f"{first:,}: the training data or `data.batch_tokens` changed since the checkpoint was written."
                )
            for index in range(first, len(micro_batches)):
                yield MicroBatch(epoch, index, len(micro_batches), self._feed.batch(micro_batches[index]))
            epoch, first = epoch + 1, 0
