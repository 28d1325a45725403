"""Answers to a stream of inputs: read and tokenized ahead, searched together, and put into words behind.

    inputs -> parts -> [thread] queries -> engine -> [thread] answers -> in the order of the inputs

The engine is never drained between parts, so that a GPU has work while text is handled. Memory does not grow with the
number of inputs: some parts are under way, and the next one is read when the oldest is answered.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from heedful.base.errors import UserError
from heedful.decode.engine import Engine, found_by
from heedful.decode.search import ProgressCallback
from heedful.decode.ticket import Ticket
from heedful.tasks.shared.answering.streaming import chunks
from heedful.tasks.shared.sequences.asked import Answer, Asked, Reported

_AHEAD: Final = 8  # parts that are under way at once
_PAUSE: Final = 0.25  # seconds before it is asked again whether an input has arrived
_FIRST: Final = 64  # inputs of the first part, which is on its way soon; each part has twice as many as the one before

Item = TypeVar("Item")
Asking = Callable[[Sequence[Item], int], Asked[Answer]]  # from inputs and the number of the first to their queries
Stage = Callable[[], Any]


@dataclass(eq=False)
class _Part(Generic[Item, Answer]):
    """Inputs that are tokenized together."""

    items: Sequence[Item]
    first: int  # number of the first input, counted from 1
    asking: "Future[Asked[Answer]]"
    reported: Reported
    asked: Asked[Answer] | None = None
    tickets: list[Ticket] = field(default_factory=list)  # in the order of the queries
    told: int = 0  # tickets that were reported
    report: ProgressCallback = lambda ready: None
    answering: "Future[Sequence[Answer] | Asked[Answer]] | None" = None
    answers: Sequence[Answer] | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.answers is not None or self.error is not None

    @property
    def future(self) -> "Future[Any] | None":
        """What a thread does for it, if anything."""
        return None if self.done else self.answering or (self.asking if self.asked is None else None)


class Pipeline(Generic[Item, Answer]):
    """The way of inputs through an engine."""

    def __init__(
        self,
        engine: Engine,
        asking: Asking[Item, Answer],
        progress: ProgressCallback,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
        refused: Callable[[UserError], Answer] | None = None,
    ) -> None:
        self._engine, self._asking, self._progress, self._refused = engine, asking, progress, refused
        self._around = around  # what is in force while answers are searched for
        self._parts = deque[_Part[Item, Answer]]()
        self._ask_after = 0.0
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="heedful-text")

    def answers(self, items: Iterable[Item], chunk: int, ready: Callable[[], bool]) -> Iterator[Answer]:
        """Yield the answers to the inputs, in their order.

        A part has `chunk` inputs, or fewer when `ready` says that the next one has not arrived yet. If an input is
        refused, or cannot be read, the answers to all inputs before it are yielded first; then the error is raised, or
        what `refused` returns for it is the answer, and the stream continues.
        """
        try:
            with self._around():
                yield from self._answers(chunks(items, chunk, ready, _FIRST), ready)
        finally:
            self._engine.cancel(*(ticket for part in self._parts for ticket in part.tickets))
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _answers(self, arriving: Iterator[Sequence[Item]], ready: Callable[[], bool]) -> Iterator[Answer]:
        first, ended = 1, False
        unreadable: Exception | None = None
        while self._parts or not ended:
            while not ended and len(self._parts) < _AHEAD and (not self._parts or self._has_arrived(ready)):
                try:
                    items = next(arriving, None)
                except Exception as error:  # of the inputs themselves
                    unreadable, items = error, None
                if items is None:
                    ended = True
                    break
                self._parts.append(self._begin(items, first))
                first += len(items)
            self._advance()
            while self._parts and self._parts[0].done:
                part = self._parts.popleft()
                if isinstance(part.error, UserError) and self._refused is not None:
                    yield self._refused(part.error)  # here, in the order of the inputs
                elif part.error is not None:
                    raise part.error
                else:
                    yield from part.answers or ()
        if unreadable is not None:
            raise unreadable

    def _has_arrived(self, ready: Callable[[], bool]) -> bool:
        """Ask whether the next input has arrived, but not at every step: whoever is asked may wait a little for it."""
        if time.monotonic() < self._ask_after:
            return False
        if ready():
            return True
        self._ask_after = time.monotonic() + _PAUSE
        return False

    def _begin(self, items: Sequence[Item], first: int) -> _Part[Item, Answer]:
        asking = self._thread(lambda: self._asking(items, first))
        return _Part(items, first, asking, Reported(self._progress, len(items)))

    def _advance(self) -> None:
        """Let every part take its next step, and the engine one of its own; wait if nothing can go on."""
        for index, part in enumerate(self._parts):
            if part.future is not None and part.future.done():
                self._take(part)
                if isinstance(part.error, UserError):
                    self._isolate(index)
                    return
            if part.tickets and not part.done and part.answering is None:
                self._look(part)
        if not self._engine.idle:
            self._engine.work()
        elif not any(part.done for part in self._parts):
            wait([part.future for part in self._parts if part.future is not None], return_when="FIRST_COMPLETED")

    def _take(self, part: _Part[Item, Answer]) -> None:
        """Take what a thread made of a part: its queries, further ones, or its answers."""
        assert part.future is not None
        part.error = part.future.exception()
        if part.error is None:
            made, part.answering = part.future.result(), None
            if isinstance(made, Asked):
                self._ask(part, made)
            else:
                part.reported.end()
                part.answers = made

    def _ask(self, part: _Part[Item, Answer], asked: Asked[Answer]) -> None:
        part.asked, part.told, part.report = asked, 0, part.reported.of(asked)
        order = sorted(range(len(asked.queries)), key=lambda index: -len(asked.queries[index].source))
        try:
            tickets = self._engine.add_all(
                [asked.queries[index] for index in order], asked.settings, asked.batch_tokens
            )
        except UserError as error:
            part.error = error
            return
        part.tickets = [ticket for _, ticket in sorted(zip(order, tickets, strict=True), key=lambda pair: pair[0])]
        if not tickets:
            part.answering = self._thread(lambda: asked.then([]))

    def _look(self, part: _Part[Item, Answer]) -> None:
        """See how many tickets are done; once all are, answer."""
        left, asked = part.tickets[0].group.left, part.asked
        assert asked is not None
        if finished := len(part.tickets) - left - part.told:
            part.told += finished
            part.report(finished)
        if not left:
            tickets, part.tickets = part.tickets, []
            part.answering = self._thread(lambda: asked.then(found_by(tickets)))

    def _isolate(self, index: int) -> None:
        """Divide a part that is refused, until the inputs that are refused are alone."""
        part = self._parts[index]
        assert isinstance(part.error, UserError)
        if len(part.items) == 1:
            return
        half = len(part.items) // 2
        self._parts[index] = self._begin(part.items[half:], part.first + half)
        self._parts.insert(index, self._begin(part.items[:half], part.first))

    def _thread(self, stage: Stage) -> "Future[Any]":
        return self._threads.submit(copy_context().run, stage)
