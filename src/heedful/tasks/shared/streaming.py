"""Answers to a stream of items, in chunks that fit into memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from heedful.errors import UserError

CHUNK: Final = 1000  # number of items of a stream that are answered together

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Answering = Callable[[Sequence[Item], int], Sequence[Answer]]  # from items and the number of the first to their answers


def chunks(items: Iterable[Item], size: int, ready: Callable[[], bool] = lambda: True) -> Iterator[list[Item]]:
    """Yield lists of `size` items, and a shorter one whenever `ready` says that the next item has not arrived yet.

    If the items end with an error, those that came before it are yielded first.
    """
    chunk: list[Item] = []
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == size or not ready():
                yield chunk
                chunk = []
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def answer_stream(
    items: Iterable[Item],
    answer: "Answering[Item, Answer]",
    *,
    chunk: int = CHUNK,
    ready: Callable[[], bool] = lambda: True,
) -> Iterator[Answer]:
    """Answer the items of a stream in order, `chunk` of them at a time, counted from 1.

    Fewer are taken together when `ready` says that the next item has not arrived yet. If `answer` refuses an item with
    a UserError, the answers to all items before it are yielded first.
    """
    first = 1
    for part in chunks(items, chunk, ready):
        yield from _answer_until_refused(part, first, answer)
        first += len(part)


def _answer_until_refused(part: Sequence[Item], first: int, answer: "Answering[Item, Answer]") -> Iterator[Answer]:
    """Answer a chunk; a refused chunk is halved until the first refused item is isolated."""
    answers: Sequence[Answer] | None = None
    try:
        answers = answer(part, first)
    except UserError:
        if len(part) == 1:
            raise
    if answers is not None:
        yield from answers
        return
    half = len(part) // 2
    yield from _answer_until_refused(part[:half], first, answer)
    yield from _answer_until_refused(part[half:], first + half, answer)
