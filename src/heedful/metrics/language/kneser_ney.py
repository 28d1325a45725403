"""Counts of n-grams as a language model: the baseline of every neural one.

    p_n(w | h) = max(c(h w) - D_n, 0) / c(h .) + D_n * types(h .) / c(h .) * p_{n-1}(w | h')
    p_0(w) = 1 / V,    D_n = s_1 / (s_1 + 2 s_2)

Kneser and Ney 1995 in the interpolated form of Chen and Goodman 1998. h are the n - 1 tokens before w, and h' all of
them but the first. c(h w) is how often h w occurs for the highest order; for lower orders it is the number of different
tokens that h w follows. c(h .) sums it over all w, types(h .) counts the w for which it is not 0, and s_1 and s_2 count
the n-grams of an order for which it is 1 and 2; D_n is 0.5 where s_1 is 0. Where c(h .) is 0, p_n is p_{n-1}.

In the modified form, D_n depends on the count c(h w) = k, up to 3: D_n(k) = k - (k + 1) D_n s_{k+1} / s_k, from 0 to k,
or D_n where s_k or s_{k+1} is 0; and D_n(c(h w)), summed over all w, is in the place of D_n * types(h .).
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

    The last entry of `kept`, `totals` and `left` is 0, for what was not seen: number -1.
    """

    keys: Ids  # sorted: the number of the history among the shorter n-grams, times V, plus the last token
    kept: Floats  # count of each less its discount
    totals: Floats  # of each history: c(h .)
    left: Floats  # of each history: the sum of discounts, which the shorter history gets


@dataclass(frozen=True, eq=False)
class KneserNey:
    """An n-gram model of texts of token ids."""

    orders: tuple[_Order, ...]  # from single tokens up
    vocabulary: int

    @classmethod
    def of(
        cls, texts: Sequence[Sequence[int] | Ids], order: int, vocabulary: int, modified: bool = False
    ) -> "KneserNey":
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
            keys, numbers = distinct(found)
            tables.append(keys)
            ends.append(numbers)
            before = _shift(ends[-1], starts[starts < len(tokens)])
        orders, histories = [], 1
        for length, keys in enumerate(tables):
            counted = ends[length] if length + 1 == order else _once_per_neighbour(ends[length], ends[length + 1])
            counts = np.bincount(counted[counted >= 0], minlength=len(keys)).astype(np.float64)
            owners = keys // vocabulary
            discounts = _discounts(counts, modified)
            totals, left = (np.append(np.bincount(owners, some, histories), 0.0) for some in (counts, discounts))
            orders.append(_Order(keys, np.append(np.maximum(counts - discounts, 0.0), 0.0), totals, left))
            histories = len(keys)
        return cls(tuple(orders), vocabulary)

    def log_probabilities(self, text: Sequence[int] | Ids, starts: Ids | None = None) -> Floats:
        """Return log p of every token of a text, given those before it; before the first there are none.

        With `starts`, several texts are end to end, and begin there.
        """
        tokens = np.asarray(text, np.int64)
        starts = np.zeros(min(1, len(tokens)), np.int64) if starts is None else starts
        p, before = np.full(len(tokens), 1 / self.vocabulary), np.zeros(len(tokens), np.int64)
        for order in self.orders:
            ends = _numbers(order.keys, _keys(before, tokens, self.vocabulary))
            total = order.totals[before]
            p = np.where(total > 0, (order.kept[ends] + order.left[before] * p) / np.maximum(total, 1), p)
            before = _shift(ends, starts)
        logs: Floats = np.log(p)
        return logs


def _keys(before: Ids, tokens: Ids, vocabulary: int) -> Ids:
    """Return the key of the n-gram that ends at each token; -1 where its history was not seen."""
    return np.where(before >= 0, before * vocabulary + tokens, -1)


def distinct(found: Ids) -> tuple[Ids, Ids]:
    """Return the distinct keys, sorted, and the number of each in them; -1 for the key -1.

    One sort, where `np.unique` and a search in its result take five times as long on millions of tokens.
    """
    order = np.argsort(found)
    in_order = found[order]
    new = np.diff(in_order, prepend=-1) > 0
    numbers = np.empty(len(found), np.int64)
    numbers[order] = np.cumsum(new) - 1
    return in_order[new], numbers


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
    one = np.empty(int(longer.max(initial=-1)) + 1, np.int64)
    one[longer[places]] = places  # any of its places: the shorter n-gram is the same at all
    return ends[one]


def _discounts(counts: Floats, modified: bool) -> Floats:
    """Return what is taken from each count; nothing from 0."""
    of = [int((counts == number).sum()) for number in range(5)]
    usual = of[1] / (of[1] + 2 * of[2]) if of[1] else 0.5
    by_count = [0.0, usual, usual, usual]
    for count in (1, 2, 3) if modified else ():
        if of[count] and of[count + 1]:
            by_count[count] = min(max(0.0, count - (count + 1) * usual * of[count + 1] / of[count]), float(count))
    found: Floats = np.array(by_count)[np.minimum(counts, 3).astype(np.int64)]
    return found
