"""Corpora to token stores: read, tokenized, filtered, kept in the cache."""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from heedful.base.errors import UserError
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.trees import TreeCorpus
from heedful.config.data import Data
from heedful.data.cache import Say, cache_folder, cached, key_of
from heedful.data.corpora.pairs import Pair, is_blank, read_pairs, why_blank
from heedful.data.prepare.prepared import Contents
from heedful.data.text_form import TextForm
from heedful.data.token_store import FORMAT, Ragged, TokenStore, id_stream, open_store, write_store
from heedful.data.tokenize.pair_encoder import Encoded, Encoder, Filters
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.worker_pool import Workers, available_cores

_CHUNK = 4096  # pairs that are tokenized together
_FEW = 12  # chunks for which no other processes are started
_TELL_EVERY = 64  # chunks


@dataclass(frozen=True)
class Tokenizing:
    """Corpora to token stores, all with the same tokenizers."""

    data: Data
    source: Tokenizer
    target: Tokenizer
    contents: Contents
    progress: Say
    processes: int = field(default_factory=available_cores)

    def store(self, corpus: AnyCorpus, filters: Filters) -> TokenStore:
        """Return the tokenized corpus, from the cache or made now."""
        key = self._key(corpus, filters)
        types = {"source": id_stream(self.source.size), "target": id_stream(self.target.size)}

        def build(staged: Path) -> None:
            self.progress(f"tokenizing {corpus.title}")
            dropped: Counter[str] = Counter()
            encoder = Encoder(self.source, self.target, filters, self._tag(corpus))
            pairs = self._telling(corpus, read_pairs(corpus, self.data.folder, TextForm.of(self.data)))
            with closing(self._encoded(self._chunks(pairs, dropped), encoder)) as encoded:
                write_store(staged, key, types, _counted(encoded, dropped), dropped)

        store = cached(cache_folder() / "tokens" / key, lambda folder: open_store(folder, key), build, self.progress)
        dropped = _dropped(store.dropped, self.data)
        if not len(store):
            raise UserError(f"{corpus.title} has no {_noun(corpus)} to use: {dropped or 'it is empty'}.")
        self.progress(f"{corpus.title}: {len(store):,} {_noun(corpus)}s" + (f", {dropped}" if dropped else ""))
        return store

    def _key(self, corpus: AnyCorpus, filters: Filters) -> str:
        return key_of(
            {
                "format": FORMAT,
                "content": self.contents[corpus],
                "form": TextForm.of(self.data).key(),
                "tokenizers": [self.source.fingerprint, self.target.fingerprint],
                "filters": [filters.max_length, filters.max_ratio],
            }
        )

    def _tag(self, corpus: AnyCorpus) -> list[int]:
        """Return the tag that goes before every source of the corpus."""
        return [self.source.tag(corpus.to)] if corpus.to else []

    def _telling(self, corpus: AnyCorpus, pairs: Iterator[Pair]) -> Iterator[Pair]:
        for number, pair in enumerate(pairs):
            if number and number % (_TELL_EVERY * _CHUNK) == 0:
                self.progress(f"tokenizing {corpus.title}: {number:,} {_noun(corpus)}s so far")
            yield pair

    def _chunks(self, pairs: Iterator[Pair], dropped: Counter[str]) -> Iterator[list[Pair]]:
        """Yield chunks of pairs with text on both sides."""
        while chunk := list(islice(pairs, _CHUNK)):
            texts = [pair for pair in chunk if not is_blank(pair)]
            if len(texts) < len(chunk):
                dropped.update(why_blank(pair) for pair in chunk if is_blank(pair))
            yield texts

    def _encoded(self, chunks: Iterator[list[Pair]], encoder: Encoder) -> Generator[Encoded, None, None]:
        """Encode in this process where the corpus is small: starting others takes a second."""
        first = list(islice(chunks, _FEW))
        chunks = chain(first, chunks)
        portable = self.source.portable and self.target.portable
        if len(first) < _FEW or self.processes == 1 or not portable:
            yield from map(encoder, chunks)
            return
        with Workers(encoder, self.processes) as workers:
            yield from workers.map(chunks)


def _counted(encoded: Iterable[Encoded], dropped: Counter[str]) -> Iterator[Mapping[str, Ragged]]:
    for chunk in encoded:
        dropped.update(chunk.dropped)
        yield chunk.streams


def _noun(corpus: AnyCorpus) -> str:
    """Return what a row of the corpus is, in words."""
    return "tree" if isinstance(corpus, TreeCorpus) else "pair"


def _dropped(dropped: Mapping[str, int], data: Data) -> str:
    """Say how many pairs were dropped and why."""
    words = {
        "empty": "with an empty side",
        "line": f"with a line longer than `data.max_line` ({data.max_line:,} characters)",
        "too long": f"longer than `data.max_length` ({data.max_length:,} tokens)",
        "ratio": f"of lengths further apart than `data.max_ratio` ({data.max_ratio})",
    }
    reasons = [f"{count:,} {words[reason]}" for reason, count in sorted(dropped.items())]
    return f"dropped {', '.join(reasons)}" if reasons else ""
