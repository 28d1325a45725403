"""Rows of several stores, counted through all stores one after the other: whose they are, their lengths and values."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from heedful.base.packed import Layout
from heedful.data.batch_layout import Lengths, StaticShape, layouts
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD

Rows = NDArray[np.int64]


def rows_by_owner(sizes: Sequence[int], rows: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Yield, for each of several owners of these sizes, which of `rows` it owns, and their numbers within it."""
    ends = np.cumsum(sizes)
    owners = np.searchsorted(ends, rows, side="right")
    for number, size in enumerate(sizes):
        mine = np.flatnonzero(owners == number)
        yield mine, rows[mine] - (ends[number] - size)


def rows_by_store(stores: Sequence[TokenStore], rows: Rows) -> Iterator[tuple[TokenStore, Rows, Rows]]:
    """Yield each store, which of `rows` it owns, and their numbers within it."""
    owned = rows_by_owner([len(store) for store in stores], rows)
    return ((store, mine, own) for store, (mine, own) in zip(stores, owned, strict=True))


def gather(stores: Sequence[TokenStore], stream: str, rows: Rows) -> tuple[NDArray[np.int64], Lengths]:
    """Return the tokens of rows end to end, in the order of the rows, and their lengths."""
    if len(stores) == 1:
        values, lengths = stores[0].gather(stream, rows)
        return values.astype(np.int64), lengths
    lengths = np.zeros(len(rows), np.int64)
    parts: list[tuple[Rows, NDArray[np.unsignedinteger]]] = []
    for store, mine, own in rows_by_store(stores, rows):
        values, lengths[mine] = store.gather(stream, own)
        parts.append((mine, values))
    gathered = np.empty(lengths.sum(), np.int64)
    starts = np.cumsum(lengths) - lengths
    for mine, values in parts:
        gathered[places_of(starts[mine], lengths[mine])] = values
    return gathered, lengths


def lengths_of(stores: Sequence[TokenStore], stream: str, rows: Rows) -> Lengths:
    """Return the number of tokens of each row."""
    lengths = np.empty(len(rows), np.int64)
    for store, mine, own in rows_by_store(stores, rows):
        lengths[mine] = store.lengths(stream, own)
    return lengths


def marked_sequences(
    lengths: Lengths, static: StaticShape | None, multiple: int
) -> tuple[Layout, Lengths, NDArray[np.int64]]:
    """Lay out sequences whose lengths count their markers; return the layout, where each begins, and their tokens.

    They begin with `<s>`, and are `</s>` wherever no piece is put later; dummies after them are padding.
    """
    (layout,) = layouts([lengths], static, multiple)
    starts = np.cumsum(lengths) - lengths
    tokens = np.full(layout.tokens, PAD, np.int64)
    tokens[: lengths.sum()] = END
    tokens[starts] = BEGIN
    return layout, starts, tokens


def places_of(starts: Lengths, lengths: Lengths) -> NDArray[np.int64]:
    """Return the flat indices of runs of these lengths that begin at `starts`."""
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
