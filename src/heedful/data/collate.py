"""How rows become batches: where the sentences of a batch begin, rows of several stores, and batches that move.

A batch has one or several sides (source and target), whose sentences belong together by their number. What fills a
side up is dummies after the real sentences, the same number on all sides, so that dummies face dummies. Sentences are
laid out ragged as they are, or in the one static shape that compilers want.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.packed import Images, Layout, Nested, Packed
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD

CPU_MULTIPLE: Final = 64  # of tokens in a CPU's batches: see `ragged_layouts`

Lengths = NDArray[np.int64]
Rows = NDArray[np.int64]  # counted through all stores one after the other


@dataclass(frozen=True)
class StaticShape:
    """The one shape of every batch, as compilers and CUDA graphs want it.

    Each side has exactly `tokens` tokens in exactly `sentences` sentences, none longer than `bound`. After the real
    sentences come dummies that fill the tokens, then empty ones that fill the sentences. An even shape is rows of
    `bound` tokens: a sentence fills its row with tokens that count in no loss, and attention needs no offsets.
    """

    tokens: int
    sentences: int
    bound: int
    even: bool = False

    @classmethod
    def around(cls, tokens: int, max_sentences: int, longest: int) -> "StaticShape":
        """Return the shape that holds any plan with these bounds; `longest` counts the markers."""
        return cls(tokens, max_sentences + -(-tokens // longest), longest)

    @classmethod
    def rows(cls, tokens: int, length: int) -> "StaticShape":
        """Return the even shape of as many rows of this length as fit into the tokens."""
        return cls(tokens // length * length, tokens // length, length, even=True)

    @property
    def max_sentences(self) -> int:
        """The most real sentences of a batch: the rest are for the dummies of the worst case."""
        return self.sentences if self.even else self.sentences - -(-self.tokens // self.bound)


def most_sentences(most: int | None, static: StaticShape | None) -> int | None:
    """Return the most sentences of a batch: no more than the static shape, where there is one, has room for."""
    if static is None:
        return most
    return min(most or static.max_sentences, static.max_sentences)


def layouts(sides: Sequence[Lengths], static: StaticShape | None, multiple: int) -> list[Layout]:
    """Lay out the sides of a batch, whose lengths count the markers."""
    return ragged_layouts(sides, multiple) if static is None else static_layouts(sides, static)


def ragged_layouts(sides: Sequence[Lengths], multiple: int) -> list[Layout]:
    """Lay out the tokens there are, up to the next multiple; dummies are no longer than the longest sentence.

    A CPU's bfloat16 kernels are compiled for every number of tokens, and a few numbers come back where thousands would
    not.
    """
    bounds = [max(1, int(lengths.max(initial=0))) for lengths in sides]
    tails = [-int(lengths.sum()) % multiple for lengths in sides]
    dummies = max(-(-tail // bound) for tail, bound in zip(tails, bounds, strict=True))
    return [
        layout_of(np.concatenate((lengths, _dealt(tail, dummies))), bound)
        for lengths, tail, bound in zip(sides, tails, bounds, strict=True)
    ]


def static_layouts(sides: Sequence[Lengths], static: StaticShape) -> list[Layout]:
    """Lay out any sentences in one shape; each side's tail is dealt out evenly."""
    count, tails = len(sides[0]), [static.tokens - int(lengths.sum()) for lengths in sides]
    dummies = -(-max(tails) // static.bound)
    spare = static.sentences - count - dummies
    longest = max(int(lengths.max(initial=0)) for lengths in sides)
    if min(*tails, spare) < 0 or longest > static.bound:
        raise ValueError(
            f"{count} sentences of {' and '.join(str(int(lengths.sum())) for lengths in sides)} tokens, the longest of "
            f"{longest}, do not fit {static}, which has room for {static.max_sentences}"
        )
    empty = np.zeros(spare, np.int64)
    return [
        layout_of(np.concatenate((lengths, _dealt(tail, dummies), empty)), static.bound)
        for lengths, tail in zip(sides, tails, strict=True)
    ]


def layout_of(lengths: Lengths, bound: int) -> Layout:
    """Lay out sentences of these lengths, none longer than `bound`, end to end."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    positions = np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1].astype(np.int64), lengths)
    return Layout(torch.from_numpy(offsets), torch.from_numpy(positions), bound)


def _dealt(total: int, shares: int) -> Lengths:
    """Deal out a total in nearly equal shares, the larger ones first."""
    if not shares:
        return np.zeros(0, np.int64)
    return total // shares + (np.arange(shares) < total % shares).astype(np.int64)


# --- rows of several stores: whose they are, their lengths and values -------------------------------------------------


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


# --- batches as dataclasses of tensors: copied to a device, to page-locked memory, or over another batch --------------


class Movable:
    """What every batch can do, with any fields: tensors, packed values, layouts, and plain numbers."""

    def to(self, device: torch.device, non_blocking: bool = False) -> Self:
        """Copy to a device."""
        return _mapped(self, lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Copy to page-locked memory, from which a GPU fetches while it computes."""
        return _mapped(self, Tensor.pin_memory)

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return a copy with every tensor changed."""
        return _mapped(self, change)

    def copy_(self, other: Self) -> None:
        """Take over the tensors of another batch of the same shape; plain numbers stay."""
        for mine, theirs in zip(_inside(self), _inside(other), strict=True):
            if isinstance(mine, Tensor):
                mine.copy_(theirs, non_blocking=True)
        self.forget()

    def forget(self) -> None:
        """Forget what was computed from the tensors, so that it is computed anew where it is needed next."""
        for value in _inside(self):
            if isinstance(value, Layout):
                value.forget()


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, _COMPOSED):
        parts = {field.name: _mapped(getattr(value, field.name), change) for field in fields(value)}  # type: ignore[arg-type]
        return replace(value, **parts)  # type: ignore[type-var]
    return value


def _inside(value: Any) -> Iterator[Any]:
    """Yield a value and all values inside it."""
    yield value
    if isinstance(value, _COMPOSED):
        for field in fields(value):  # type: ignore[arg-type]
            yield from _inside(getattr(value, field.name))


_COMPOSED: Final = (Movable, Packed, Layout, Nested, Images)  # dataclasses with tensors in them
