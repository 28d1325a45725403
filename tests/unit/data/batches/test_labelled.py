"""Numbers of rows in batches: those of their stores, in the order of the rows, and NaN where there is none."""

from collections import Counter

import numpy as np
import torch

from heedful.data.batches.texts import numbers_of
from heedful.data.prepare.stores import NumberStream
from heedful.data.token_store import TokenStore


def store_of(*numbers: float) -> TokenStore:
    return TokenStore(NumberStream[float](lambda number: number).encode(numbers, Counter()))


def test_numbers_of_several_stores_come_in_the_order_of_the_rows_and_dummies_have_none() -> None:
    found = numbers_of([store_of(1.5, -2.0), store_of(1e6)], np.array([2, 0]), rows=3)
    assert found.dtype == torch.float32
    assert found[:2].tolist() == [1e6, 1.5]
    assert found[2:].isnan().all()


def test_rows_without_numbers_have_none() -> None:
    assert numbers_of([TokenStore.of(text=[[5], [6]])], np.arange(2), rows=2).isnan().all()
