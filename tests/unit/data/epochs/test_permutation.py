from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from heedful.data.epochs.plan import Permutation, random_order


def order(size: int, seed: int) -> list[int]:
    return random_order(size, np.random.default_rng(seed))(np.arange(size)).tolist()


def computed(size: int, seed: int) -> list[int]:
    return Permutation.drawn(size, np.random.default_rng(seed))(np.arange(size)).tolist()


@pytest.mark.parametrize("size", [*range(1, 70), 127, 128, 129, 1000, 4095, 4097, 100_003, 1 << 17])
def test_every_number_stands_at_one_place(size: int) -> None:
    assert sorted(order(size, seed=size)) == sorted(computed(size, seed=size)) == list(range(size))


def test_the_places_asked_for_together_do_not_matter() -> None:
    permutation = Permutation.drawn(1000, np.random.default_rng(0))
    whole = permutation(np.arange(1000))
    places = np.array([999, 3, 3, 500])
    assert permutation(places).tolist() == whole[places].tolist()
    assert permutation(np.empty(0, np.int64)).tolist() == []


def test_no_table_is_needed() -> None:
    size = 10**15
    numbers = Permutation.drawn(size, np.random.default_rng(0))(np.arange(size - 1000, size))
    assert len(set(numbers.tolist())) == 1000
    assert 0 <= numbers.min() < size / 20
    assert size * 19 / 20 < numbers.max() < size


def test_another_draw_is_another_order() -> None:
    orders = [computed(1000, seed) for seed in range(20)]
    assert len({tuple(numbers) for numbers in orders}) == 20
    for left, right in pairwise(orders):
        assert sum(a == b for a, b in zip(left, right, strict=True)) < 10  # one on average


def test_all_orders_of_a_few_numbers_are_equally_likely() -> None:
    counts = Counter(tuple(order(3, seed)) for seed in range(1200))
    assert len(counts) == 6
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 20.5  # chi-square, 5 degrees: 1 in 1,000


@pytest.mark.parametrize("size", [50, 5000, 1 << 14])
def test_numbers_and_places_have_nothing_to_do_with_each_other(size: int) -> None:
    """Against what chance gives: correlation with the place, and how often neighbours stay neighbours."""
    rounds = 20
    orders = [computed(size, seed) for seed in range(rounds)]
    places = np.arange(size)
    assert abs(np.mean([np.corrcoef(places, numbers)[0, 1] for numbers in orders])) < 4 / np.sqrt(size * rounds)
    together = sum(int((np.diff(numbers) == 1).sum()) for numbers in orders)
    assert together < rounds + 5 * np.sqrt(rounds)  # one an order on average


def test_every_number_is_as_likely_at_every_place() -> None:
    size, cells, rounds = 5000, 20, 100  # the cells are neighbouring numbers and places
    table = np.zeros((cells, cells))
    for seed in range(rounds):
        np.add.at(table, (np.arange(size) * cells // size, np.array(computed(size, seed)) * cells // size), 1)
    expected = size * rounds / cells**2
    assert ((table - expected) ** 2 / expected).sum() < 500  # chi-square, 361 degrees: 1 in a million
