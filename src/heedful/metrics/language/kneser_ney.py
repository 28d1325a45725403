"""Counts of n-grams as a language model: the baseline of every neural one.

    p_n(w | h) = max(c(h w) - D_n, 0) / c(h .) + D_n * types(h .) / c(h .) * p_{n-1}(w | h')
    p_0(w) = 1 / V,    D_n = s_1 / (s_1 + 2 s_2)

Kneser and Ney 1995 in the interpolated form of Chen and Goodman 1998. h are the n - 1 tokens before w, and h' all of
them but the first. c(h w) is how often h w occurs for the highest order; for lower orders it is the number of different
tokens that h w follows. c(h .) sums it over all w, types(h .) counts the w for which it is not 0, and s_1 and s_2 count
the n-grams of an order for which it is 1 and 2; D_n is 0.5 where s_1 is 0. Where c(h .) is 0, p_n is p_{n-1}.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Order:
    """The n-grams of one length: what is counted of each, and of each of their histories.

    The last entry of `counts`, `totals` and `types` is 0, for what was not seen: number -1.
    """

    keys: Ids  # sorted: the number of the history among the shorter n-grams, times V, plus the last token
    counts: Floats
    totals: Floats  # of each history: c(h .)
    types: Floats  # of each history: types(h .)
    discount: float


@dataclass(frozen=True, eq=False)
class KneserNey:
    """An n-gram model of texts of token ids."""

    orders: tuple[_Order, ...]  # from single tokens up
    vocabulary: int

    @classmethod
    def of(cls, texts: Sequence[Sequence[int] | Ids], order: int, vocabulary: int) -> "KneserNey":
        """Count the n-grams of texts, up to `order` tokens, of a vocabulary of this size."""
        if order < 1:
            raise ValueError(f"the order of an n-gram model is {order}, but must be at least 1")
        tokens = np.concatenate([np.asarray(text, np.int64) for text in texts])
        starts = np.cumsum([0, *map(len, texts)])[:-1]
        tables: list[Ids] = []  # the keys of each order
        ends: list[Ids] = []  # the number of the n-gram that ends at each token
        before = np.zeros(len(tokens), np.int64)  # the number of the history of each token
        for _ in range(order):
            found = _keys(before, tokens, vocabulary)
            tables.append(np.unique(found[found >= 0]))
            ends.append(_numbers(tables[-1], found))
            before = _shift(ends[-1], starts[starts < len(tokens)])
        orders, histories = [], 1
        for length, keys in enumerate(tables):
            counted = ends[length] if length + 1 == order else _once_per_neighbour(ends[length], ends[length + 1])
            counts = np.bincount(counted[counted >= 0], minlength=len(keys)).astype(np.float64)
            owners = keys // vocabulary
            totals, types = (np.append(np.bincount(owners, some, histories), 0.0) for some in (counts, counts > 0))
            orders.append(_Order(keys, np.append(counts, 0.0), totals, types, _discount(counts)))
            histories = len(keys)
        return cls(tuple(orders), vocabulary)

    def log_probabilities(self, text: Sequence[int] | Ids) -> Floats:
        """Return log p of every token of a text, given those before it; before the first there are none."""
        tokens = np.asarray(text, np.int64)
        p, before = np.full(len(tokens), 1 / self.vocabulary), np.zeros(len(tokens), np.int64)
        for order in self.orders:
            ends = _numbers(order.keys, _keys(before, tokens, self.vocabulary))
            total = order.totals[before]
            seen = np.maximum(order.counts[ends] - order.discount, 0)
            p = np.where(total > 0, (seen + order.discount * order.types[before] * p) / np.maximum(total, 1), p)
            before = _shift(ends, np.zeros(min(1, len(tokens)), np.int64))
        logs: Floats = np.log(p)
        return logs


def _keys(before: Ids, tokens: Ids, vocabulary: int) -> Ids:
    """Return the key of the n-gram that ends at each token; -1 where its history was not seen."""
    return np.where(before >= 0, before * vocabulary + tokens, -1)


def _numbers(keys: Ids, found: Ids) -> Ids:
    """Return the number of each key, from 0; -1 where there is none."""
    if not len(keys):
        return np.full(len(found), -1)
    places = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
    return np.where(keys[places] == found, places, -1)


def _shift(ends: Ids, starts: Ids) -> Ids:
    """Return what ends before each token: nothing where a text starts."""
    before = np.roll(ends, 1)
    before[starts] = -1
    return before


def _once_per_neighbour(ends: Ids, longer: Ids) -> Ids:
    """Return the n-grams, each as often as there are n-grams longer by one token before it."""
    places = np.flatnonzero(longer >= 0)
    _, first = np.unique(longer[places], return_index=True)
    return ends[places[first]]


def _discount(counts: Floats) -> float:
    once, twice = (int((counts == number).sum()) for number in (1, 2))
    return once / (once + 2 * twice) if once else 0.5
