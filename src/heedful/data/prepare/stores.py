"""One builder of stores: corpora are read, encoded, kept in the cache, counted and described in one way.

What differs between tasks is declared by `Rows`: what a row is called, how rows are read, which are left out, and which
streams (`data.prepare.streams`) they become.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, Generic

from heedful.base.errors import UserError, counted
from heedful.config.corpora.containers import AnyCorpus
from heedful.data.cache import Say, cache_folder, cached, key_of
from heedful.data.prepare.streams import Row, Stream, Streams
from heedful.data.token_store import FORMAT, TokenStore, open_store, write_store

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
