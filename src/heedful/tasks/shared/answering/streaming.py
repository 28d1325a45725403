"""Answers to a stream of items by a model that needs one forward pass, in batches that fit into memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final, Generic, TypeVar

from heedful.base.arguments import check_whole, lines_of
from heedful.base.errors import UserError

CHUNK: Final = 1000  # number of items of a stream that are answered together

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Answering = Callable[[Sequence[Item], int], Sequence[Answer]]  # from items and the number of the first to their answers


def chunks(
    items: Iterable[Item], size: int, ready: Callable[[], bool] = lambda: True, least: int | None = None
) -> Iterator[list[Item]]:
    """Yield lists of `size` items, and a shorter one whenever `ready` says that the next item has not arrived yet.

    With `least` the first list has that many items, and each of the next ones twice as many, up to `size`. If the items
    end with an error, those that came before it are yielded first.
    """
    chunk: list[Item] = []
    wanted = min(size, least or size)
    try:
        for item in lines_of(items):
            chunk.append(item)
            if len(chunk) == wanted or not ready():
                yield chunk
                chunk, wanted = [], min(2 * wanted, size)
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


@dataclass(eq=False)
class Work(Generic[Item, Answer]):
    """One item of a batcher, and what became of it."""

    item: Item
    number: int  # of the item, for messages
    answers: Sequence[Answer] = ()  # the answer, once there is one
    error: UserError | None = None
    cancelled: bool = False

    @property
    def done(self) -> bool:
        """Whether nothing more will come."""
        return self.cancelled or self.error is not None or len(self.answers) > 0


class Batcher(Generic[Item, Answer]):
    """Items of a model that answers with one forward pass: they join and leave between batches, as those of an engine.

        work = batcher.add(item)      it waits for a batch
        done = batcher.tick()         one batch of what waits, in the order of arrival
        batcher.cancel(work)          it is not answered, if no batch has begun with it

    A batch has items of at most `budget`, by their costs, and one at least. Items that are refused do not fail their
    neighbours: their batch is divided until they are alone.
    """

    def __init__(
        self, answer: "Answering[Item, Answer]", budget: int, cost: Callable[[Item], int] = lambda item: 1
    ) -> None:
        self._answer, self._budget, self._cost = answer, budget, cost
        self._waiting = deque[Work[Item, Answer]]()
        self._lock = Lock()

    @property
    def idle(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def add(self, item: Item, number: int = 1) -> Work[Item, Answer]:
        """Let an item wait for the next batch."""
        work = Work[Item, Answer](item, number)
        self._waiting.append(work)
        return work

    def cancel(self, *works: Work[Item, Answer]) -> None:
        """Leave items out."""
        for work in works:
            work.cancelled = not work.done

    def tick(self) -> list[Work[Item, Answer]]:
        """Answer one batch, and return its items."""
        with self._lock:
            batch: list[Work[Item, Answer]] = []
            used = 0
            while self._waiting:
                work = self._waiting[0]
                cost = self._cost(work.item)
                # A batch is numbered from its first item on.
                if batch and (used + cost > self._budget or work.number != batch[-1].number + 1):
                    break
                self._waiting.popleft()
                if not work.cancelled:
                    batch.append(work)
                    used += cost
            self._answer_apart(batch)
            return batch

    def _answer_apart(self, batch: Sequence[Work[Item, Answer]]) -> None:
        """Answer a batch; a refused one is halved until the refused items are isolated."""
        if not batch:
            return
        refused: UserError | None = None
        try:
            answers = self._answer([work.item for work in batch], batch[0].number)
        except UserError as error:
            refused = error  # handled outside of the block, so that errors of parts do not chain
        if refused is None:
            for work, answer in zip(batch, answers, strict=True):
                work.answers = (answer,)
        elif len(batch) == 1:
            batch[0].error = refused
        else:
            half = len(batch) // 2
            self._answer_apart(batch[:half])
            self._answer_apart(batch[half:])


def answer_stream(
    items: Iterable[Item],
    answer: "Answering[Item, Answer]",
    *,
    chunk: int = CHUNK,
    ready: Callable[[], bool] = lambda: True,
    refused: Callable[[UserError], Answer] | None = None,
) -> Iterator[Answer]:
    """Answer the items of a stream in order, `chunk` of them at a time, counted from 1.

    Fewer are taken together when `ready` says that the next item has not arrived yet. If `answer` refuses an item with
    a UserError, the answers to all items before it are yielded first; then the error is raised, or what `refused`
    returns for it is the answer, and the stream continues.
    """
    check_whole("chunk", chunk, least=1)  # here, so that it is refused before the first item is asked for

    def answers() -> Iterator[Answer]:
        batcher, first = Batcher(answer, chunk), 1
        for part in chunks(items, chunk, ready):
            works = [batcher.add(item, number) for number, item in enumerate(part, start=first)]
            first += len(part)
            while not batcher.idle:
                batcher.tick()
            for work in works:
                if work.error is None:
                    yield work.answers[0]
                elif refused is not None:
                    yield refused(work.error)
                else:
                    raise work.error

    return answers()


def empty_answer(refused: Callable[[UserError], None] | None, empty: Answer) -> Callable[[UserError], Answer] | None:
    """Return what `answer_stream` calls for a refused item: tell `refused`, and answer with `empty`."""
    if refused is None:
        return None

    def answer(error: UserError) -> Answer:
        refused(error)
        return empty

    return answer
