"""Streams in chunks, and the answers to their items."""

from collections.abc import Callable, Iterator, Sequence

import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.tasks.shared.answering.streaming import answer_stream, chunks, empty_answer

# --- chunks -----------------------------------------------------------------------------------------------------------


def test_chunks_hold_all_items_in_order() -> None:
    assert list(chunks(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(chunks(range(6), 3)) == [[0, 1, 2], [3, 4, 5]]
    assert list(chunks([], 3)) == []


def test_a_chunk_ends_early_when_the_next_item_has_not_arrived() -> None:
    ready = iter([True, False, False, True, False])
    assert list(chunks("abcde", 3, lambda: next(ready))) == [["a", "b"], ["c"], ["d", "e"]]


def test_no_more_is_taken_than_is_yielded() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    first = next(chunks(items(), 4))
    assert first == taken == [0, 1, 2, 3]


def test_what_came_before_an_error_comes_first() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise OSError("the disk is gone")

    seen: list[list[int]] = []
    with refuses("...the disk is gone...", OSError):
        seen.extend(iter(chunks(items(), 3)))
    assert seen == [[0, 1, 2], [3, 4]]


# --- answers ----------------------------------------------------------------------------------------------------------

Double = Callable[[Sequence[int], int], list[int]]


def doubling(refused: Sequence[int] = (), calls: list[list[int]] | None = None) -> Double:
    """Doubles items; of those to refuse, the last one of a chunk is complained of, as a batch may find any first."""

    def answer(part: Sequence[int], first: int) -> list[int]:
        if calls is not None:
            calls.append(list(part))
        for number, item in reversed(list(enumerate(part, start=first))):
            if item in refused:
                raise UserError(f"line {number}: {item} is refused")
        return [2 * item for item in part]

    return answer


@pytest.mark.parametrize("chunk", [1, 3, 4, 100])
def test_answers_come_in_order_whatever_the_size_of_a_chunk(chunk: int) -> None:
    assert list(answer_stream(range(10, 20), doubling(), chunk=chunk)) == list(range(20, 40, 2))


def test_a_chunk_without_a_mistake_is_answered_at_once() -> None:
    calls: list[list[int]] = []
    list(answer_stream(range(7), doubling(calls=calls), chunk=3))
    assert calls == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8, 100])
@pytest.mark.parametrize("refused", range(8))
def test_everything_before_a_refused_item_is_answered_and_the_message_has_its_number(chunk: int, refused: int) -> None:
    seen: list[int] = []
    with pytest.raises(UserError) as caught:
        seen.extend(iter(answer_stream(range(8), doubling([refused, 7]), chunk=chunk)))
    assert seen == [2 * item for item in range(refused)]
    assert str(caught.value) == f"line {refused + 1}: {refused} is refused"
    assert caught.value.__context__ is None  # one error, not a chain of attempts


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_refused_items_can_have_an_answer_of_their_own(chunk: int) -> None:
    told: list[str] = []
    refused = empty_answer(lambda error: told.append(str(error)), -1)
    seen = list(answer_stream(range(8), doubling([2, 3, 7]), chunk=chunk, refused=refused))
    assert seen == [0, 2, -1, -1, 8, 10, 12, -1]
    assert told == [f"line {item + 1}: {item} is refused" for item in (2, 3, 7)]


def test_a_refused_item_of_a_large_chunk_is_found_in_few_attempts() -> None:
    calls: list[list[int]] = []
    with pytest.raises(UserError):
        list(answer_stream(range(1000), doubling([700], calls), chunk=1000))
    assert len(calls) < 25
    assert sum(map(len, calls)) < 4000


def test_an_item_is_answered_before_the_next_is_awaited() -> None:
    taken: list[int] = []

    def arriving() -> Iterator[int]:
        for item in range(3):
            taken.append(item)
            yield item

    answers = answer_stream(arriving(), doubling(), ready=lambda: False)
    for number in range(3):
        assert next(answers) == 2 * number
        assert taken == list(range(number + 1))


def test_what_came_before_an_error_of_the_stream_is_answered() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise UserError("in.txt, line 6 is damaged")

    seen: list[int] = []
    with refuses("in.txt, line 6 is damaged"):
        seen.extend(iter(answer_stream(items(), doubling(), chunk=3)))
    assert seen == [0, 2, 4, 6, 8]


def test_an_error_that_is_not_the_users_is_raised_at_once() -> None:
    calls: list[int] = []

    def broken(part: Sequence[int], first: int) -> list[int]:
        calls.append(first)
        raise ValueError("a bug")

    with refuses("...a bug...", ValueError):
        list(answer_stream(range(9), broken))
    assert calls == [1]
