"""Corpora to token stores: read, tokenized, filtered, kept in the cache."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from heedful.config.schema import AnyCorpus, Data
from heedful.data.cache import Progress, cache_folder, cached, key_of
from heedful.data.readers import Pair, corpus_name, is_blank, read_pairs
from heedful.data.store import FORMAT, Sentences, TokenStore, open_store, write_store
from heedful.data.tokenizer import Tokenizer
from heedful.errors import UserError

_CHUNK = 4096  # pairs that are in memory at once
_TELL_EVERY = 64  # chunks

Contents = Mapping[AnyCorpus, Mapping[str, object]]  # what decides which pairs a corpus gives


@dataclass(frozen=True)
class Filters:
    """Which pairs are dropped beside those with an empty side; lengths count pieces, without markers."""

    max_length: int | None = None
    max_ratio: float | None = None

    def objection(self, source: int, target: int) -> str | None:
        """The reason to drop a pair of these lengths, or None."""
        shorter, longer = sorted((source, target))
        if not shorter:
            return "empty"
        if self.max_length is not None and longer > self.max_length:
            return "too long"
        if self.max_ratio is not None and longer > self.max_ratio * shorter:
            return "ratio"
        return None


@dataclass(frozen=True)
class Tokenizing:
    """Corpora to token stores, all with the same tokenizers."""

    data: Data
    source: Tokenizer
    target: Tokenizer
    contents: Contents
    progress: Progress

    def store(self, corpus: AnyCorpus, filters: Filters) -> TokenStore:
        """The tokenized corpus, from the cache or made now."""
        key = self._key(corpus, filters)
        vocabularies = {"source": self.source.size, "target": self.target.size}

        def build(staged: Path) -> None:
            self.progress(f"tokenizing {corpus_name(corpus)}")
            dropped: Counter[str] = Counter()
            pairs = self._telling(corpus, read_pairs(corpus, self.data.folder, self.data.nfc))
            write_store(staged, key, vocabularies, self._chunks(pairs, filters, dropped), dropped)

        store = cached(cache_folder() / "tokens" / key, lambda folder: open_store(folder, key), build, self.progress)
        dropped = _dropped(store.dropped, self.data)
        if not len(store):
            raise UserError(f"{corpus_name(corpus)} has no pair to use: {dropped or 'it is empty'}.")
        self.progress(f"{corpus_name(corpus)}: {len(store):,} pairs" + (f", {dropped}" if dropped else ""))
        return store

    def _key(self, corpus: AnyCorpus, filters: Filters) -> str:
        return key_of(
            {
                "format": FORMAT,
                "content": self.contents[corpus],
                "nfc": self.data.nfc,
                "tokenizers": [self.source.fingerprint, self.target.fingerprint],
                "filters": [filters.max_length, filters.max_ratio],
            }
        )

    def _telling(self, corpus: AnyCorpus, pairs: Iterator[Pair]) -> Iterator[Pair]:
        for number, pair in enumerate(pairs):
            if number and number % (_TELL_EVERY * _CHUNK) == 0:
                self.progress(f"tokenizing {corpus_name(corpus)}: {number:,} pairs so far")
            yield pair

    def _chunks(
        self, pairs: Iterator[Pair], filters: Filters, dropped: Counter[str]
    ) -> Iterator[Mapping[str, Sentences]]:
        while chunk := list(islice(pairs, _CHUNK)):
            texts = [pair for pair in chunk if not is_blank(pair)]
            sources = self.source.encode_batch([source for source, _ in texts])
            targets = self.target.encode_batch([target for _, target in texts])
            objections = [filters.objection(len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
            dropped.update(reason for reason in objections if reason)
            dropped.update(["empty"] * (len(chunk) - len(texts)))
            yield {
                stream: [ids for ids, objection in zip(side, objections, strict=True) if not objection]
                for stream, side in (("source", sources), ("target", targets))
            }


def _dropped(dropped: Mapping[str, int], data: Data) -> str:
    """How many pairs were dropped and why, in words."""
    words = {
        "empty": "with an empty side",
        "too long": f"longer than `data.max_length` ({data.max_length:,} tokens)",
        "ratio": f"of lengths further apart than `data.max_ratio` ({data.max_ratio})",
    }
    reasons = [f"{count:,} {words[reason]}" for reason, count in sorted(dropped.items())]
    return f"dropped {', '.join(reasons)}" if reasons else ""
