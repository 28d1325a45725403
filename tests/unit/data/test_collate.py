"""Rows of several stores as if the stores were one."""

from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heedful.data.collate import gather, lengths_of, places_of, rows_by_owner, rows_by_store
from heedful.data.token_store import TokenStore

corpora = st.lists(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=5), min_size=1, max_size=4).filter(any)


@given(corpora, st.data())
def test_every_row_has_the_store_and_the_number_that_counting_gives(
    several: list[list[list[int]]], data: st.DataObject
) -> None:
    counted = [(number, row) for number, corpus in enumerate(several) for row in range(len(corpus))]
    rows = data.draw(st.lists(st.integers(0, len(counted) - 1), max_size=12))
    found: dict[int, tuple[int, int]] = {}
    for number, (mine, own) in enumerate(rows_by_owner([len(corpus) for corpus in several], np.array(rows, np.int64))):
        found.update({place: (number, row) for place, row in zip(mine.tolist(), own.tolist(), strict=True)})
    assert [found[place] for place in range(len(rows))] == [counted[row] for row in rows]


@given(corpora, st.data())
def test_rows_of_several_stores_are_those_of_all_in_one(several: list[list[list[int]]], data: st.DataObject) -> None:
    whole = list(chain.from_iterable(several))
    stores = [TokenStore.of(text=corpus) for corpus in several]
    rows = np.array(data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=12)), np.int64)
    values, lengths = gather(stores, "text", rows)
    assert values.tolist() == list(chain.from_iterable(whole[row] for row in rows))
    assert lengths.tolist() == lengths_of(stores, "text", rows).tolist() == [len(whole[row]) for row in rows]


def test_a_store_without_any_of_the_rows_has_none() -> None:
    stores = [TokenStore.of(text=[[1]]), TokenStore.of(text=[[2], [3]])]
    found = [(store, mine.tolist(), own.tolist()) for store, mine, own in rows_by_store(stores, np.array([2, 1]))]
    assert found == [(stores[0], [], []), (stores[1], [0, 1], [1, 0])]


def test_runs_are_laid_out_from_where_they_begin() -> None:
    assert places_of(np.array([7, 0, 3]), np.array([2, 0, 3])).tolist() == [7, 8, 3, 4, 5]
