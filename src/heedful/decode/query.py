"""Queries: what a task asks of a search, sentence by sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.arguments import check_one_each
from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import END

Source = Sequence[int] | NDArray[Any] | Tensor


@dataclass(frozen=True)
class DrawStart:
    """Where the random numbers of a query start: equal starts draw equal numbers, in any batch."""

    key: int  # from 0 to 2^64 - 1, by which queries differ
    sample: int = 0  # number of the first sample that is drawn
    step: int = 0  # number of tokens that an earlier search found for the same target


@dataclass(frozen=True, eq=False)
class Query:
    """One sentence of a search. The task packs its source; the search only joins the sources of a batch.

    An encoder reads the source; a decoder without memory continues it.
    """

    source: Source  # token ids with all their markers, or one vector per row, such as the patches of an image
    limit: int  # maximum number of target tokens, `</s>` included
    prefix: Sequence[int] = ()  # tokens that the target starts with; they are part of what is found
    number: int = 0  # index of the sentence among all that the user gave: messages name it
    draw: DrawStart | None = None  # where sampling starts to draw; by default `number` is the key
    # All tokens that its target may have, sorted: the special ones, those of the prefix, and others. None for any.
    shortlist: NDArray[np.int64] | None = None
    words: int = 0  # number of words of the source, for constraints on targets over words

    @property
    def drawn_from(self) -> DrawStart:
        """Where sampling starts to draw."""
        return self.draw or DrawStart(self.number)


def text_queries(
    sources: Sequence[Sequence[int]], max_extra: int, prefixes: Sequence[Sequence[int]] | None = None, first: int = 0
) -> list[Query]:
    """Return queries for texts, given as token ids without markers: each source ends with `</s>`.

    A target has at most as many tokens as its source, plus `max_extra`; `</s>` counts in the target alone. `first` is
    the number of the first text.
    """
    prefixes = [()] * len(sources) if prefixes is None else prefixes
    check_one_each(len(sources), "source", len(prefixes), "prefix", ", which may be empty")
    return [
        Query([*source, END], len(source) + max_extra, prefix, number)
        for number, (source, prefix) in enumerate(zip(sources, prefixes, strict=True), start=first)
    ]


def bounded(queries: Sequence[Query], most: int | None, least: int = 0) -> Sequence[Query]:
    """Return queries whose targets have at most `most` tokens, `</s>` included, but room for more than `least`."""
    if most is None:
        return queries
    return [replace(query, limit=min(query.limit, max(most, least + 1, len(query.prefix) + 1))) for query in queries]


def pack_sources(queries: Sequence[Query]) -> Packed:
    """Join the sources of a batch, which are all token ids or all vectors."""
    sources = [query.source for query in queries]
    if all(isinstance(source, Sequence) for source in sources):
        return Packed.of([token_ids(source) for source in sources])
    return Packed.join([torch.as_tensor(source) for source in sources])


def pack_prompts(queries: Sequence[Query]) -> tuple[Packed, list[int]]:
    """Join the sources of a batch that is to be continued, without their last tokens, and return these separately.

    A decoder reads all tokens of a prompt at once but the last, which its first step takes.
    """
    sources = [token_ids(query.source) for query in queries]
    return Packed.of([source[:-1] for source in sources]), [source[-1] for source in sources]


def token_ids(source: Source) -> Sequence[int]:
    """Return a source of token ids as a sequence of Python numbers."""
    if isinstance(source, Sequence):
        return source
    ids: list[int] = source.tolist()
    return ids
