"""Batches in the order of the plan, from any point of it, made ahead in a background thread."""

import queue
import threading
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, runtime_checkable

from heedful.base.errors import UserError
from heedful.config.recipe import Recipe
from heedful.data.collate import CPU_MULTIPLE, Movable, StaticShape
from heedful.data.epochs.plan import Counts, Indices, plan
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore

Batch = TypeVar("Batch")
MadeBatch = TypeVar("MadeBatch", covariant=True)
RowBatch = TypeVar("RowBatch", bound=Movable)


@runtime_checkable
class Feed(Protocol[MadeBatch]):
    """What a loader serves: the micro-batches of an epoch, and how one is made.

    What a plan holds for a micro-batch, the numbers of its rows or more, only the feed itself has to understand.
    """

    def plan(self, epoch: int) -> Iterable[Any]:
        """Return the micro-batches of an epoch, in order; the same ones whenever it is called."""

    def batch(self, planned: Any, /) -> MadeBatch:
        """Make one micro-batch."""


@runtime_checkable
class TrainingFeed(Feed[MadeBatch], Protocol[MadeBatch]):
    """The feed of a run, which has the form that the run's device wants."""

    @property
    def static(self) -> StaticShape | None:
        """The one shape of every batch, where there is one."""

    def placed(self, static: StaticShape | None, pin: bool) -> Self:
        """Return the feed for a device: batches of one shape, where one is given, and in page-locked memory."""


@dataclass(frozen=True)
class MicroBatch(Generic[Batch]):
    """A batch and its position: number `index` of an epoch, both from 0, and whether the epoch ends with it."""

    epoch: int
    index: int
    last: bool
    batch: Batch


class Collator(Protocol[MadeBatch]):
    """Turns rows of stores into a model's input."""

    noun: ClassVar[str]  # what a row is, in messages

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> Sequence[Counts]:
        """Return the tokens of some rows as they are read, markers included: one array per side."""
        ...

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> MadeBatch:
        """Make the batch of these rows: ragged, filled up to a multiple of tokens, or of one static shape."""
        ...


@dataclass(frozen=True, eq=False)
class RowFeed(Generic[RowBatch]):
    """Training rows of one or several weighted stores."""

    stores: Sequence[TokenStore]
    weights: Sequence[float]
    collator: Collator[RowBatch]
    seed: int
    batch_tokens: int
    max_sentences: int | None = None
    static: StaticShape | None = None
    multiple: int = 1  # of tokens, where the shape is not static
    pin: bool = False

    @classmethod
    def of(cls, recipe: Recipe, prepared: Prepared, collator: Collator[RowBatch], shortest: int | None = None) -> Self:
        """Return the feed of a run. Which rows share a batch does not depend on the device.

        Batches of rows that are all shorter than `shortest` tokens leave some of the budget unused.
        """
        tokens, seed = recipe.data.batch_tokens, recipe.train.seed
        most = None if shortest is None else max(1, tokens // shortest)
        return cls(prepared.train, prepared.weights, collator, seed, tokens, most, multiple=CPU_MULTIPLE)

    def plan(self, epoch: int) -> Iterator[Indices]:
        """Return the micro-batches of an epoch, in order; the same ones whenever it is called."""
        return plan(
            partial(self.collator.costs, self.stores),
            [len(store) for store in self.stores],
            self.weights,
            seed=self.seed,
            epoch=epoch,
            batch_tokens=self.batch_tokens,
            max_sentences=self.max_sentences,
            noun=self.collator.noun,
        )

    def batch(self, indices: Indices) -> RowBatch:
        """Make one micro-batch."""
        made = self.collator.batch(self.stores, indices, self.static, self.multiple)
        return made.pin_memory() if self.pin else made

    def rows(self, indices: Indices) -> Indices:
        """Return the rows of a micro-batch, counted through all stores."""
        return indices

    def some(self, indices: Indices, places: Indices) -> RowBatch:
        """Make a micro-batch of some rows of another one."""
        return self.batch(indices[places])

    def placed(self, static: StaticShape | None, pin: bool) -> Self:
        """Return the feed for a device; a collator that can pin memory itself does so, without another copy."""
        collator: Any = self.collator
        pinning = replace(collator, pin=pin) if hasattr(collator, "pin") else collator
        return replace(self, collator=pinning, static=static, pin=pin)


class Loader(Generic[Batch]):
    """Endless micro-batches from (epoch, index) on; close it, or use it in a `with` block."""

    def __init__(
        self,
        feed: Feed[Batch],
        start: tuple[int, int] = (0, 0),
        ahead: int = 4,
        without: Container[tuple[int, int]] = frozenset(),
    ) -> None:
        """`without` are micro-batches that are left out, by epoch and number."""
        self._feed, self._start, self._without = feed, start, without
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
        """Put into the queue as soon as there is room; False when the loader was closed first."""
        while not self._closed.is_set():
            try:
                self._ready.put(made, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def _numbered(self, epoch: int) -> Iterator[tuple[int, Any]]:
        """Yield the planned micro-batches of an epoch with their numbers, without those that are left out."""
        for index, planned in enumerate(self._feed.plan(epoch)):
            if (epoch, index) not in self._without:
                yield index, planned

    def _micro_batches(self) -> Iterator[MicroBatch[Batch]]:
        epoch, first = self._start
        while True:
            count = 0
            for index, planned, last in _with_last(self._numbered(epoch)):
                if self._closed.is_set():
                    return
                count = index + 1
                if index >= first:
                    yield MicroBatch(epoch, index, last, self._feed.batch(planned))
            if first > count and not self._without:
                raise UserError(
                    f"Epoch {epoch} has {count:,} micro-batches, but training continues at number {first:,}: "
                    "the training data or `data.batch_tokens` changed since the checkpoint was written."
                )
            epoch, first = epoch + 1, 0


def _with_last(micro_batches: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any, bool]]:
    """Yield each with whether it is the last one."""
    before: tuple[int, Any] | None = None
    for numbered in micro_batches:
        if before is not None:
            yield *before, False
        before = numbered
    if before is not None:
        yield *before, True
