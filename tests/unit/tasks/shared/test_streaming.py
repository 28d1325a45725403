"""Streams in pieces."""

from collections.abc import Iterator

import pytest

from heedful.tasks.shared.streaming import chunks


def test_chunks_hold_all_items_in_order() -> None:
    assert list(chunks(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(chunks(range(6), 3)) == [[0, 1, 2], [3, 4, 5]]
    assert list(chunks([], 3)) == []


def test_a_chunk_ends_early_where_the_next_item_would_have_to_be_awaited() -> None:
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
    with pytest.raises(OSError, match="the disk is gone"):
        seen.extend(iter(chunks(items(), 3)))
    assert seen == [[0, 1, 2], [3, 4]]
