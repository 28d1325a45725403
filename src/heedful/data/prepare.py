"""From a recipe to tokenizers and tokenized corpora; what the cache already has is neither trained nor read again."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import tokenizers as tokenizers_library

from heedful.config.schema import AnyCorpus, AnyTokenizer, Data, Recipe
from heedful.data import tokenizer_training
from heedful.data.cache import Progress, cache_folder, cached, key_of
from heedful.data.readers import Pair, check_files, content_key, corpus_name, is_blank, read_pairs
from heedful.data.store import FORMAT, Sentences, TokenStore, open_store, write_store
from heedful.data.tokenizer import Tokenizer
from heedful.errors import UserError
from heedful.files import read_bytes

_CHUNK = 4096  # pairs that are in memory at once
_TELL_EVERY = 64  # chunks
_TOKENIZER_FILE = "tokenizer.json"

Side = Literal["both", "source", "target"]
Contents = Mapping[AnyCorpus, Mapping[str, object]]  # what decides which pairs a corpus gives


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that training needs to know of the data. With one joint vocabulary both tokenizers are the same object."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    train: tuple[TokenStore, ...]  # one a corpus
    weights: tuple[float, ...]  # of the training corpora
    valid: tuple[TokenStore, ...]


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


def prepare(
    recipe: Recipe,
    progress: Progress = lambda message: None,
    tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
) -> Prepared:
    """Train the tokenizers, unless they are given, and tokenize the training and validation corpora.

    `progress` gets a line of text for every longer piece of work.
    """
    data = recipe.data
    for corpus in (*data.train, *data.valid):
        check_files(corpus, data.folder)
    contents = {corpus: content_key(corpus, data.folder) for corpus in (*data.train, *data.valid)}
    source, target = tokenizers or _trained_tokenizers(data, recipe.tokenizer, contents, progress)
    work = _Tokenizing(data, source, target, contents, progress)
    return Prepared(
        source,
        target,
        train=tuple(work.store(corpus, Filters(data.max_length, data.max_ratio)) for corpus in data.train),
        weights=tuple(corpus.weight for corpus in data.train),
        valid=tuple(work.store(corpus, Filters()) for corpus in data.valid),
    )


def _trained_tokenizers(
    data: Data, config: AnyTokenizer, contents: Contents, progress: Progress
) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of the source and the target side, from the cache or trained on the training corpora."""
    sides: tuple[Side, ...] = ("both",) if config.joint else ("source", "target")
    trained = [_trained_tokenizer(data, config, side, contents, progress) for side in sides]
    return trained[0], trained[-1]


def _trained_tokenizer(
    data: Data, config: AnyTokenizer, side: Side, contents: Contents, progress: Progress
) -> Tokenizer:
    key = key_of(
        {
            "version": tokenizer_training.VERSION,
            "library": tokenizers_library.__version__,
            "config": config.model_dump(),
            "nfc": data.nfc,
            "side": side,
            "contents": [contents[corpus] for corpus in data.train],
        }
    )

    def build(staged: Path) -> None:
        _refuse_without_pairs(data)
        of_side = "" if side == "both" else f" of the {side} side"
        progress(f"training the tokenizer{of_side}: {config.kind}, {config.size:,} pieces")
        trained = tokenizer_training.train_tokenizer(config, _texts(data, side))
        (staged / _TOKENIZER_FILE).write_bytes(trained.to_json())

    return cached(cache_folder() / "tokenizers" / key, _load_tokenizer, build, progress)


def _load_tokenizer(folder: Path) -> Tokenizer | None:
    path = folder / _TOKENIZER_FILE
    try:
        return Tokenizer.from_json(read_bytes(path), str(path))
    except UserError:  # missing or damaged
        return None


def _refuse_without_pairs(data: Data) -> None:
    for corpus in data.train:
        if all(is_blank(pair) for pair in read_pairs(corpus, data.folder)):
            raise UserError(f"{corpus_name(corpus)} has no pair with text on both sides to train on.")


def _texts(data: Data, side: Side) -> Iterator[str]:
    for corpus in data.train:
        for source, target in read_pairs(corpus, data.folder, data.nfc):
            if side != "target":
                yield source
            if side != "source":
                yield target


@dataclass(frozen=True)
class _Tokenizing:
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
