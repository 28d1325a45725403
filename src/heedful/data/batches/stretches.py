"""Which stretches of documents are the inputs of an epoch: a pure function of (stores, weights, seed, epoch).

Documents come in random order, pool by pool, and the sentences of each are gathered to inputs. Where the cuts fall is
drawn anew in every epoch, so that a token is seen in many contexts. A pool's inputs are sorted by length and cut by
token budget, as `plan.py` does it: a plan takes the memory of one pool, or of one document where that is longer.

A store of documents has one row per document in two streams: "text", its tokens, and "sentences", the number of
tokens of each sentence.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import UserError
from heedful.data.collate import gather, lengths_of
from heedful.data.epochs.plan import POOL, Counts, Indices, batches_of_pool, generator, pools, shuffled
from heedful.data.token_store import TokenStore


@dataclass(frozen=True, eq=False)
class Runs:
    """Stretches of documents, which are counted through all stores; tokens are counted from a document's first."""

    documents: Indices
    begins: Indices
    ends: Indices

    @property
    def lengths(self) -> Indices:
        """The number of tokens of each."""
        return self.ends - self.begins

    def take(self, places: Indices) -> Self:
        """Return some of them."""
        return type(self)(self.documents[places], self.begins[places], self.ends[places])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join several."""
        return cls(*(np.concatenate([getattr(part, key.name) for part in parts]) for key in fields(cls)))


@dataclass(frozen=True, eq=False)
class Spans:
    """The inputs of a micro-batch, or of a pool: `<s> first </s>`, or `<s> first </s> second </s>`."""

    first: Runs
    second: Runs | None = None
    drawn: Indices | None = None  # 0 where the second follows the first, 1 where it is from another document
    seeds: tuple[int, ...] = ()  # of the masks

    @property
    def lengths(self) -> Indices:
        """The number of tokens of each input, markers included."""
        if self.second is None:
            return self.first.lengths + 2
        return self.first.lengths + self.second.lengths + 3

    def take(self, places: Indices, seeds: tuple[int, ...]) -> "Spans":
        """Return some of the inputs, with the seeds of their masks."""
        if self.second is None or self.drawn is None:
            return Spans(self.first.take(places), seeds=seeds)
        return Spans(self.first.take(places), self.second.take(places), self.drawn[places], seeds)

    @staticmethod
    def joined(parts: Sequence["Spans"]) -> "Spans":
        """Join several of one form; the result has no seeds."""
        first = Runs.joined([part.first for part in parts])
        pairs = [(part.second, part.drawn) for part in parts if part.second is not None and part.drawn is not None]
        if not pairs:
            return Spans(first)
        return Spans(first, Runs.joined([second for second, _ in pairs]), np.concatenate([drawn for _, drawn in pairs]))


@dataclass(frozen=True, eq=False)
class SentencePieces:
    """The sentences of documents end to end; one that would not fit an input is several pieces."""

    documents: Indices
    owners: Indices  # the index in `documents` of each piece
    totals: Indices  # the tokens before each piece, and those of all

    @classmethod
    def of(cls, stores: Sequence[TokenStore], documents: Indices, longest: int, random: np.random.Generator) -> Self:
        """Return the pieces of documents that all have text."""
        sizes, counts = gather(stores, "sentences", documents)
        owners, full = np.repeat(np.arange(len(documents)), counts), sizes > 0
        sizes, further = _split(sizes[full], longest, random)
        return cls(documents, np.repeat(owners[full], further + 1), np.concatenate(([0], np.cumsum(sizes))))

    def __len__(self) -> int:
        return len(self.owners)

    @cached_property
    def sizes(self) -> Indices:
        """The number of tokens of each."""
        return np.diff(self.totals)

    @cached_property
    def firsts(self) -> Indices:
        """The first piece of each document."""
        return np.searchsorted(self.owners, np.arange(len(self.documents)))

    @cached_property
    def ends(self) -> Indices:
        """The piece after the last one of each document."""
        return np.searchsorted(self.owners, np.arange(len(self.documents)), side="right")

    def past(self, begins: Indices, tokens: NDArray[np.int64] | int) -> Indices:
        """Return the first piece that does not fit into `tokens` tokens from a piece on, or the document's end."""
        reached = np.searchsorted(self.totals, self.totals[begins] + tokens, side="right") - 1
        return np.minimum(reached, self.ends[self.owners[begins]])

    def reaching(self, begins: Indices, tokens: NDArray[np.int64]) -> Indices:
        """Return the piece after the one that reaches `tokens` tokens from a piece on, or the document's end."""
        reached = np.searchsorted(self.totals, self.totals[begins] + tokens)
        return np.minimum(reached, self.ends[self.owners[begins]])

    def runs(self, begins: Indices, tokens_begin: Indices, tokens_end: Indices) -> Runs:
        """Return stretches of these pieces' documents, between tokens counted from the first of all documents."""
        owners = self.owners[begins]
        origins = self.totals[self.firsts[owners]]
        return Runs(self.documents[owners], tokens_begin - origins, tokens_end - origins)


@dataclass(frozen=True)
class Cutting(ABC):
    """Cuts documents into inputs."""

    markers: ClassVar[int]  # of an input
    form: ClassVar[str]  # of an input, in messages

    max_length: int  # the most tokens, markers included

    @property
    def room(self) -> int:
        """The most tokens of text in an input."""
        return self.max_length - self.markers

    def check(self, stores: Sequence[TokenStore]) -> None:
        """Refuse inputs without room for one token of each text, and documents that cannot be cut so."""
        least = 2 * self.markers - 1
        if self.max_length < least:
            raise UserError(
                f"`data.max_length` is {self.max_length}, but must be at least {least}: an input is `{self.form}`, "
                "markers included."
            )

    def pools(self, documents: Iterable[Indices]) -> Iterator[Indices]:
        """Yield pools of documents that are large enough."""
        return iter(documents)

    @abstractmethod
    def cut(self, pieces: SentencePieces, random: np.random.Generator) -> Spans:
        """Return all inputs of a pool."""


class SingleStretches(Cutting):
    """Consecutive sentences of one document, as many as fit; each token of it is in one input."""

    markers, form = 2, "<s> A </s>"

    def cut(self, pieces: SentencePieces, random: np.random.Generator) -> Spans:
        """Gather greedily; the first input of a document that needs several is of random length."""
        ends = pieces.past(np.arange(len(pieces)), self.room)
        firsts = pieces.firsts[pieces.totals[pieces.ends] - pieces.totals[pieces.firsts] > self.room]
        ends[firsts] = np.maximum(firsts + 1, pieces.past(firsts, random.integers(1, self.room + 1, len(firsts))))
        begins = _chain(ends)
        return Spans(pieces.runs(begins, pieces.totals[begins], pieces.totals[ends[begins]]))


def plan_spans(
    stores: Sequence[TokenStore],
    weights: Sequence[float],
    cutting: Cutting,
    *,
    seed: int,
    epoch: int,
    batch_tokens: int,
    max_sentences: int | None = None,
) -> Iterator[Spans]:
    """Yield the micro-batches of an epoch, each within `batch_tokens`."""
    cutting.check(stores)
    if batch_tokens < cutting.max_length:
        raise UserError(
            f"`data.batch_tokens` is {batch_tokens:,}, but an input has up to {cutting.max_length:,} tokens: raise it, "
            "or lower `data.max_length`."
        )
    random = generator(seed, epoch)
    documents = shuffled([len(store) for store in stores], weights, random, "document")

    def costs(rows: Indices) -> tuple[Counts]:
        return (lengths_of(stores, "text", rows),)

    def with_text() -> Iterator[Indices]:
        for block in documents:
            if len(full := block[lengths_of(stores, "text", block) > 0]):
                yield full

    def micro_batches() -> Iterator[Spans]:
        number = 0
        for pool in cutting.pools(pools(with_text(), costs, POOL * batch_tokens)):
            spans = cutting.cut(SentencePieces.of(stores, pool, cutting.room, random), random)
            lengths = spans.lengths
            order = random.permutation(len(lengths))  # neighbours are of one document: sorting keeps equals in order
            for places in batches_of_pool(order, (lengths[order],), random, batch_tokens, max_sentences):
                number += 1  # from 1 on: a zero after the seeds would change nothing
                yield spans.take(places, (seed, epoch, number))
        if not number:
            raise UserError("The documents have no tokens: look at their files.")

    return micro_batches()


def _split(sizes: Indices, longest: int, random: np.random.Generator) -> tuple[Indices, Indices]:
    """Split what is longer: the pieces' sizes, and how many more pieces than one each became.

    The first piece is of random size, so that a long sentence is cut elsewhere in every epoch.
    """
    first, long = sizes.copy(), np.flatnonzero(sizes > longest)
    first[long] = random.integers((longest + 1) // 2, longest + 1, len(long))
    further = -(-(sizes - first) // longest)
    heads = np.cumsum(further + 1) - (further + 1)
    pieces = np.full(int((further + 1).sum()), longest)
    pieces[heads] = first
    pieces[(heads + further)[long]] = (sizes - first - (further - 1) * longest)[long]
    return pieces, further


def _chain(ends: Indices) -> Indices:
    """Follow the ends from the first piece on: each input begins where the one before ended."""
    place, places, jumps = 0, [], ends.tolist()
    while place < len(jumps):
        places.append(place)
        place = jumps[place]
    return np.array(places, np.int64)
