"""Tokenizers that are already in Heedful's order: those of models that it has written itself."""

import json
from typing import Any, Final

from heedful.base.files import read_bytes
from heedful.data.tokenize.tokenizer import SPECIALS, Tokenizer
from heedful.interop.transformers.model_folder import ModelFolder
from heedful.interop.transformers.tokenizers.vocabulary_files import load_library, refuse_other_size

_LIBRARY: Final = "tokenizer.json"


def read_own_order(folder: ModelFolder) -> Tokenizer | None:
    """Read a tokenizer whose first pieces are our markers; None where a folder has another one, or none."""
    path = folder.path / _LIBRARY
    if not path.exists():
        return None
    described = json.loads(load_library(read_bytes(path), path).to_str())
    added = {token["id"]: token["content"] for token in described["added_tokens"]}
    if [added.get(number) for number in range(len(SPECIALS))] != list(SPECIALS):
        return None
    described |= {"post_processor": None, "truncation": None, "padding": None}
    tokenizer = Tokenizer.from_json(json.dumps(described).encode(), str(path))
    refuse_other_size(path, tokenizer.size, folder)
    return tokenizer if tokenizer.size == folder.config.number("vocab_size") else None


def kind_of_library(tokenizer: Tokenizer) -> str:
    """Return the value of a recipe's `tokenizer.kind` that makes tokenizers like this one."""
    described: dict[str, Any] = json.loads(tokenizer.to_json())
    model, decoder = described["model"]["type"], (described["decoder"] or {}).get("type", "")
    named = {"WordPiece": "wordpiece", "Unigram": "unigram", "WordLevel": "word"}
    return named.get(model) or {"ByteLevel": "byte_bpe", "Fuse": "char"}.get(decoder, "bpe")
