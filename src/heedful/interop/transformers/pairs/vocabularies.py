"""Tokenizers of our vocabularies in the files of `transformers`, and back: the ids stay as they are.

tokenizer.json           ours, with what Heedful does around it: the text's form before it, and the markers after it
target/tokenizer.json    that of the target, where the sides have vocabularies of their own
tokenizer_config.json    the names of the markers, beside each
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer as Library
from tokenizers import processors

from heedful.base.errors import UserError
from heedful.base.files import make_folder, read_bytes, write_bytes, write_json
from heedful.config.recipe import Recipe
from heedful.data.tokenize.own_tokenizer import OwnTokenizer
from heedful.data.tokenize.tokenizer import SPECIALS, Tokenizer, tag_of
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.transformers.model_folder import ModelFolder

TARGET: Final = "target"  # the folder of a target's own tokenizer
_FILE, _CONFIG = "tokenizer.json", "tokenizer_config.json"
_PAD, _BEGIN, _END, _UNKNOWN = SPECIALS
FORMS: Final = {"nfc": "NFC", "lowercase": "Lowercase"}  # keys of [data] and normalizers of the library


def write_vocabularies(folder: Path, vocabularies: Vocabularies, recipe: Recipe, longest: int) -> None:
    """Write the tokenizers; sources may have `longest` tokens."""
    source, target = vocabularies["source"], vocabularies["target"]
    for place, tokenizer in {folder: source, **({} if vocabularies.joint else {folder / TARGET: target})}.items():
        if isinstance(tokenizer, OwnTokenizer):
            raise UserError(
                "The model has a tokenizer of the program that trained it, which transformers cannot hold: train a "
                "model with a [tokenizer] of Heedful to export."
            )
        make_folder(place)
        write_bytes(place / _FILE, _to_theirs(tokenizer, _forms(recipe)))
        write_json(place / _CONFIG, _config(longest))


def _config(longest: int) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": _PAD,
        "bos_token": _BEGIN,
        "eos_token": _END,
        "unk_token": _UNKNOWN,
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # a text with "</s>" in it is about markup
    }


def _forms(recipe: Recipe) -> list[dict[str, str]]:
    return [{"type": kind} for key, kind in FORMS.items() if getattr(recipe.data, key)]


def _to_theirs(tokenizer: Tokenizer, forms: list[dict[str, str]]) -> bytes:
    """Return our tokenizer with the text's form before it, and `</s>` after the text.

    One target language is asked for in every source. Of several, the text names the one that it asks for.
    """
    described = json.loads(tokenizer.to_json())
    own = described["normalizer"]
    if forms:
        described["normalizer"] = {"type": "Sequence", "normalizers": [*forms, *([own] if own else [])]}
    tags = [tag_of(language) for language in tokenizer.tags]
    if len(tags) > 1:
        for token in described["added_tokens"]:
            if token["content"] in tags:  # found in texts, as opposed to markers, whatever is around it
                token |= {"special": False, "lstrip": True, "rstrip": True}
    library = Library.from_str(json.dumps(described))
    before = [tags[0]] if len(tags) == 1 else []
    library.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", _END],
        pair=[*before, "$A", _END, "$B:1", f"{_END}:1"],
        special_tokens=[(token, library.token_to_id(token)) for token in (*before, _END)],
    )
    return library.to_str(pretty=False).encode()


def read_vocabularies(folder: ModelFolder, joint: bool, forms: Mapping[str, bool]) -> Vocabularies:
    """Read the tokenizers that `write_vocabularies` wrote; `forms` are the keys of [data] that they were written by."""
    if joint:
        return Vocabularies(dict.fromkeys(("source", "target"), _to_ours(folder.require(_FILE), forms)))
    places = {"source": folder.require(_FILE), "target": folder.require(f"{TARGET}/{_FILE}")}
    return Vocabularies({name: _to_ours(path, forms) for name, path in places.items()})


def _to_ours(path: Path, forms: Mapping[str, bool]) -> Tokenizer:
    """Return the tokenizer of a file without what was written around it."""
    try:
        described = json.loads(read_bytes(path))
        described |= {"post_processor": None, "padding": None, "truncation": None}  # the last use there, saved with it
        if asked := sum(forms.values()):
            described["normalizer"] = next(iter(described["normalizer"]["normalizers"][asked:]), None)
        for token in described["added_tokens"]:
            token |= {"special": True, "lstrip": False, "rstrip": False}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a tokenizer that Heedful wrote ({error!r}): export the model again.") from error
    return Tokenizer.from_json(json.dumps(described).encode(), str(path))
