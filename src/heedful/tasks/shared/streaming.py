"""Answers to a stream of items, in chunks that fit into memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from heedful.base.arguments import check_several, check_texts, check_whole, lines_of
from heedful.base.errors import UserError

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
        for item in lines_of(items):
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
    refused: Callable[[UserError], Answer] | None = None,
) -> Iterator[Answer]:
    """Answer the items of a stream in order, `chunk` of them at a time, counted from 1.

    Fewer are taken together when `ready` says that the next item has not arrived yet. If `answer` refuses an item with
    a UserError, the answers to all items before it are yielded first; then the error is raised, or what `refused`
    returns for it is the answer, and the stream continues.
    """
    check_whole("chunk", chunk, least=1)  # here, so that it is refused before the first item is asked for

    def answers() -> Iterator[Answer]:
        first = 1
        for part in chunks(items, chunk, ready):
            yield from _answer_apart(part, first, answer, refused)
            first += len(part)

    return answers()


def answer_texts(
    texts: Iterable[str], answer: "Answering[str, Answer]", chunk: int, ready: Callable[[], bool], name: str
) -> Iterator[Answer]:
    """Answer the texts of a stream as `answer_stream` does; refuse what is not a text. `name` is for messages."""
    check_several(texts, name)
    return answer_stream(
        texts, lambda part, first: answer(check_texts(part, name, first), first), chunk=chunk, ready=ready
    )


def empty_answer(refused: Callable[[UserError], None] | None, empty: Answer) -> Callable[[UserError], Answer] | None:
    """Return what `answer_stream` calls for a refused item: tell `refused`, and answer with `empty`."""
    if refused is None:
        return None

    def answer(error: UserError) -> Answer:
        refused(error)
        return empty

    return answer


def _answer_apart(
    part: Sequence[Item], first: int, answer: "Answering[Item, Answer]", refused: Callable[[UserError], Answer] | None
) -> Iterator[Answer]:
    """Answer a chunk; a refused chunk is halved until the refused items are isolated."""
    answers: Sequence[Answer] | None = None
    try:
        answers = answer(part, first)
    except UserError as error:
        if len(part) == 1:
            if refused is None:
                raise
            answers = [refused(error)]
    if answers is not None:
        yield from answers
        return
    half = len(part) // 2
    yield from _answer_apart(part[:half], first, answer, refused)
    yield from _answer_apart(part[half:], first + half, answer, refused)
