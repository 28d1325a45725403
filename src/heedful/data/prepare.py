"""From a recipe to tokenizers and tokenized corpora; what the cache already has is neither trained nor read again."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tokenizers as tokenizers_library

from heedful.config.schema import AnyTokenizer, Data, Recipe
from heedful.data import tokenizer_training
from heedful.data.cache import Progress, cache_folder, cached, key_of
from heedful.data.readers import check_files, content_key, corpus_name, is_blank, read_pairs
from heedful.data.store import TokenStore
from heedful.data.tokenizer import Tokenizer
from heedful.data.tokenizing import Contents, Filters, Tokenizing
from heedful.errors import UserError
from heedful.files import read_bytes

_TOKENIZER_FILE = "tokenizer.json"

Side = Literal["both", "source", "target"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that training needs to know of the data. With one joint vocabulary both tokenizers are the same object."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    train: tuple[TokenStore, ...]  # one a corpus
    weights: tuple[float, ...]  # of the training corpora
    valid: tuple[TokenStore, ...]


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
    work = Tokenizing(data, source, target, contents, progress)
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
