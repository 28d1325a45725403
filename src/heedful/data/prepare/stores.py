"""From corpora to stores: how what a row has becomes numbers, and one builder for all tasks.

A kind of stream says the type of its items, what of it decides the content of a store, and how rows are encoded. What
differs between tasks is declared by `Rows`: what a row is called, how rows are read, which are left out, and which
streams they become; a task that needs another kind of stream writes it next to its other code.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from heedful.base.errors import UserError, counted
from heedful.config.corpora.containers import AnyCorpus
from heedful.data.cache import Say, cache_folder, cached, key_of
from heedful.data.text_form import TextForm
from heedful.data.token_store import FORMAT, Ragged, StreamType, TokenStore, id_stream, id_type, open_store, write_store
from heedful.data.tokenize.encoding import KnownWords, ragged
from heedful.data.tokenize.tokenizer import Tokenizer

Row = TypeVar("Row")
AnyRow = TypeVar("AnyRow", contravariant=True)
Streams = Mapping[str, Ragged]

WHOLE_NUMBERS: Final = StreamType(np.dtype(np.uint32))  # lengths, numbers of classes, and others from 0 on


class Stream(Protocol[AnyRow]):
    """One stream of a store, or several that are made together."""

    @property
    def types(self) -> Mapping[str, StreamType]:
        """The type of each stream, by name."""
        ...

    @property
    def key(self) -> Mapping[str, object]:
        """What decides the numbers besides the rows: parts of the cache key, whose names are frozen."""
        ...

    def encode(self, rows: Sequence[AnyRow], dropped: Counter[str]) -> Streams:
        """Return the numbers of rows; rows that are left out here are counted in `dropped` by their reason."""
        ...


@dataclass(frozen=True, eq=False)
class Tokenized:
    """What all streams of token ids share: a tokenizer, and the form that texts were brought into."""

    tokenizer: Tokenizer
    form: TextForm

    @property
    def key(self) -> Mapping[str, object]:
        """The form of texts, and the tokenizer."""
        return {"form": self.form.key(), "tokenizer": self.tokenizer.fingerprint}

    @cached_property
    def words(self) -> KnownWords:
        """The tokenizer with a memory of words."""
        return KnownWords(self.tokenizer)


@dataclass(frozen=True, eq=False)
class TextStream(Tokenized, Generic[Row]):
    """Token ids of a text of each row; further streams of the same tokenizer have other texts of it."""

    texts: Mapping[str, Callable[[Row], str]]  # by the name of their stream

    @property
    def types(self) -> Mapping[str, StreamType]:
        """The ids of the vocabulary."""
        return dict.fromkeys(self.texts, id_stream(self.tokenizer.size))

    def encode(self, rows: Sequence[Row], dropped: Counter[str]) -> Streams:
        """Tokenize the texts."""
        dtype = id_type(self.tokenizer.size)
        return {
            name: ragged(self.words.encode([text_of(row) for row in rows]), dtype)
            for name, text_of in self.texts.items()
        }


@dataclass(frozen=True, eq=False)
class LabelStream(Generic[Row]):
    """The numbers of the classes of each row: one, several or none."""

    numbers: Callable[[Sequence[Row]], Sequence[Sequence[int]]]
    key: Mapping[str, object] = field(default_factory=dict)
    name: str = "label"

    @property
    def types(self) -> Mapping[str, StreamType]:
        """Whole numbers."""
        return {self.name: WHOLE_NUMBERS}

    def encode(self, rows: Sequence[Row], dropped: Counter[str]) -> Streams:
        """Look up the classes."""
        return {self.name: Ragged.of(self.numbers(rows))}


@dataclass(frozen=True, eq=False)
class NumberStream(Generic[Row]):
    """A number of each row, such as a rating or a price."""

    number: Callable[[Row], float]
    name: str = "number"

    @property
    def types(self) -> Mapping[str, StreamType]:
        """One number of 32 bits."""
        return {self.name: StreamType(np.dtype(np.float32))}

    @property
    def key(self) -> Mapping[str, object]:
        """That rows have a number, and in which form."""
        return {self.name: "float32"}

    def encode(self, rows: Sequence[Row], dropped: Counter[str]) -> Streams:
        """Take the numbers."""
        values = np.fromiter(map(self.number, rows), np.float32, len(rows))
        return {self.name: Ragged(values, np.arange(len(rows) + 1))}


# --- stores: corpora are read, encoded, kept in the cache, counted and described in one way --------------------------


_TELL_EVERY: Final = 64  # chunks


@dataclass(frozen=True, kw_only=True)
class Rows(Generic[Row]):
    """What the rows of one corpus are, and how they become a store."""

    noun: str  # what a row is called
    read: Callable[[Counter[str]], Iterable[Row]]  # the argument counts what reading itself leaves out
    streams: Sequence[Stream[Row]]
    key: Mapping[str, object] = field(default_factory=dict)  # further parts of the cache key, with frozen names
    objection: Callable[[Row], str | None] = lambda row: None  # the reason to leave out a row
    dropped: Mapping[str, str] = field(default_factory=dict)  # reasons in words: "3 <words>"
    chunk: int = 1024  # rows that are encoded together
    cache: str = "tokens"  # the folder of the cache
    work: str = "tokenizing"  # what encoding is called
    size: str = ""  # what is known of its extent before it begins
    facts: Callable[[TokenStore], Iterable[str]] | None = None  # what a store has; by default its number of rows
    empty: Callable[[TokenStore], str] = lambda store: ""  # why it has no rows, if that is known

    def encode(self, chunks: Iterator[list[Row]], dropped: Counter[str]) -> Generator[Streams, None, None]:
        """Yield the streams of chunks of rows."""
        for rows in chunks:
            yield {
                name: part for stream in self.streams for name, part in stream.encode(rows, dropped).items()
            }  # fmt: skip

    def describe(self, store: TokenStore) -> Iterator[str]:
        """Yield what a store has, and what was left out of it."""
        yield from [counted(len(store), self.noun)] if self.facts is None else self.facts(store)
        if lost := self.lost(store):
            yield lost

    def lost(self, store: TokenStore) -> str:
        """Return how many rows were left out and why, in words."""
        counts = {words: store.dropped.get(reason, 0) for reason, words in self.dropped.items()}
        reasons = [f"{count:,} {words}" for words, count in counts.items() if count]
        return f"dropped {', '.join(reasons)}" if reasons else ""


def build_store(corpus: AnyCorpus, rows: Rows[Row], content: Mapping[str, object], progress: Say) -> TokenStore:
    """Return the store of a corpus, from the cache or made now; refuse a corpus that has no rows to use.

    `content` is what decides which rows the corpus gives (`data.corpora.files.content_key`).
    """
    parts = {name: part for stream in rows.streams for name, part in stream.key.items()}
    key = key_of({"format": FORMAT, "content": content, **parts, **rows.key})

    def build(staged: Path) -> None:
        progress(f"{rows.work} {corpus.title}{rows.size}")
        dropped: Counter[str] = Counter()
        types = {name: kind for stream in rows.streams for name, kind in stream.types.items()}
        with closing(rows.encode(chunks(dropped), dropped)) as encoded:
            write_store(staged, key, types, encoded, dropped)

    def chunks(dropped: Counter[str]) -> Iterator[list[Row]]:
        waiting, number = iter(rows.read(dropped)), 0
        while chunk := list(islice(waiting, rows.chunk)):
            if number and number % _TELL_EVERY == 0:
                progress(f"{rows.work} {corpus.title}: {number * rows.chunk:,} {rows.noun}s so far")
            number += 1
            reasons = [rows.objection(row) for row in chunk]
            dropped.update(reason for reason in reasons if reason)
            if kept := [row for row, reason in zip(chunk, reasons, strict=True) if not reason]:
                yield kept

    store = cached(cache_folder() / rows.cache / key, lambda folder: open_store(folder, key), build, progress)
    if not len(store):
        why = rows.empty(store) or rows.lost(store) or "it is empty"
        raise UserError(f"{corpus.title} has no {rows.noun} to use: {why}.")
    if facts := [*rows.describe(store)]:
        progress(f"{corpus.title}: {', '.join(facts)}")
    return store
