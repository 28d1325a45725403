"""Byte-level vocabularies, such as those of GPT-2 and Llama 3, in Heedful's order      Radford et al. 2019, 2.2

The piece that ends a text becomes `</s>`, and the one that begins it becomes `<s>`; where one piece does both, as
`<|endoftext|>` in GPT-2, `<s>` is a copy of it. These models have no `<pad>` and no `<unk>`: both are copies of `</s>`.
A bias keeps copies from being predicted, so that probabilities are the model's own. All other rows follow in their old
order. Markers become pieces that no text can produce, as markers are never parsed out of text.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers

from heedful.base.errors import UserError
from heedful.base.files import read_bytes, read_json
from heedful.data.tokenize.tokenizer import BEGIN, PAD, SPECIALS, UNKNOWN, Tokenizer
from heedful.interop.transformers.model_folder import CheckedConfig, ModelFolder
from heedful.interop.transformers.tokenizers.vocabulary_files import (
    UNNAMED,
    load_library,
    refuse_long_pieces,
    refuse_other_size,
)

NEVER: Final = -100.0  # bias of copies: a factor of e^-100 makes them impossible
_LIBRARY, _CONFIG, _ADDED = "tokenizer.json", "tokenizer_config.json", "added_tokens.json"
_PIECES, _MERGES = "vocab.json", "merges.txt"


@dataclass(frozen=True, eq=False)
class ByteLevelVocabulary:
    """A tokenizer, and the row of a folder's matrices that belongs to each of its ids."""

    tokenizer: Tokenizer
    rows: tuple[int, ...]
    copies: tuple[int, ...]  # ids that the model must not predict
    begins: bool  # whether `<s>` comes before a text
    composes: bool  # whether text is brought into Unicode's form NFC before


def read_byte_level(folder: ModelFolder) -> ByteLevelVocabulary:
    """Read a folder's vocabulary, or raise a UserError that says why it cannot be read."""
    size = folder.config.number("vocab_size")
    where, theirs = byte_level_library(folder)
    # The piece of each row, spelled in letters for bytes.
    added = theirs.get_added_tokens_decoder()
    for token in added.values():
        if not token.special:
            raise UserError(
                f"{where} adds `{token.content}` to the vocabulary, which is looked for in texts, but Heedful supports "
                "only pieces made by merges, and markers."
            )
    known = theirs.get_vocab(with_added_tokens=False)
    missing = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - known.keys())
    if missing:
        raise UserError(f"{where} lacks a piece for the byte `{missing[0]}`: it is not a byte-level vocabulary.")
    found = {row: piece for piece, row in known.items()} | {row: _spell(token.content) for row, token in added.items()}
    refuse_other_size(where, max(found) + 1, folder)
    taken = {piece for row, piece in found.items() if row not in added} | set(SPECIALS)
    pieces = {row: piece for row, piece in found.items() if row not in added or piece not in taken}
    end = _row(folder, "eos_token_id", size)
    if end is None:
        raise UserError(f"{folder.config.where}: `eos_token_id` is missing, but a language model needs its end marker.")
    begin = _row(folder, "bos_token_id", size)
    copies = (PAD, UNKNOWN, *([BEGIN] if begin in (None, end) else []))
    begin = end if begin is None else begin
    others = [row for row in range(size) if row not in (begin, end)]
    names = [*SPECIALS, *(pieces.get(row, f"{UNNAMED}{row}]") for row in others)]
    return ByteLevelVocabulary(
        tokenizer=_tokenizer(theirs, names, where),
        rows=(end, begin, end, end, *others),
        copies=copies,
        begins=_begins(folder, theirs, where, begin),
        composes=theirs.normalizer is not None,
    )


def _spell(text: str) -> str:
    """Return a text in the letters that represent its bytes."""
    ((spelled, _),) = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    return spelled


def _row(folder: ModelFolder, key: str, size: int) -> int | None:
    """Return the row of a marker; generation_config.json comes first, as in `transformers`."""
    for config in (folder.read_config("generation_config.json"), folder.config):
        if config.values.get(key) is not None:
            return config.index(key, size)
    return None


def _tokenizer(theirs: Library, names: Sequence[str], where: Path) -> Tokenizer:
    """Build a tokenizer that splits text as theirs does, with ids in our order."""
    described = json.loads(theirs.to_str())
    described["model"]["vocab"] = {name: number for number, name in enumerate(names)}
    described |= {"added_tokens": [], "normalizer": None, "post_processor": None, "truncation": None, "padding": None}
    library = load_library(json.dumps(described).encode(), where)
    library.add_special_tokens(list(SPECIALS))
    return Tokenizer(library)


def _begins(folder: ModelFolder, theirs: Library, where: Path, begin: int) -> bool:
    """Whether the folder's tokenizer puts the begin marker before a text, and nothing else."""
    config = folder.read_config(_CONFIG)
    config.must_be("add_eos_token", False, "Heedful continues a prompt without an end marker")
    if config.values.get("add_bos_token") is not None:
        return config.flag("add_bos_token", False)
    alone, marked = (theirs.encode("a", add_special_tokens=added).ids for added in (False, True))
    if marked not in (alone, [begin, *alone]):
        raise UserError(
            f"{where}: `post_processor` adds other markers to a text than `bos_token_id` before it, which Heedful does "
            "not support."
        )
    return len(marked) > len(alone)


# --- files ------------------------------------------------------------------------------------------------------------


def byte_level_library(folder: ModelFolder) -> tuple[Path, Library]:
    """Read the library's tokenizer, from its own file or from pieces and merges, and name the file."""
    path = folder.path / _LIBRARY
    if path.exists():
        library = load_library(read_bytes(path), path)
        _refuse_other_parts(json.loads(library.to_str()), path)
        # Heedful reads long texts in parts, so tokens may not depend on more than words.
        splits = library.pre_tokenizer.pre_tokenize_str("word\nword 7\n7")
        if not {4, 9, 11} <= {start for _, (start, _) in splits}:
            raise UserError(
                f"{path}: `pre_tokenizer` joins a word with the white space after it, which Heedful does not support."
            )
        return path, library
    path = folder.path / _PIECES
    if not path.exists():
        raise UserError(
            f"{folder.path} has neither {_LIBRARY} nor {_PIECES} and {_MERGES}, which a {folder.model_type} model "
            "needs: copy its tokenizer there."
        )
    folder.read_config(_CONFIG).must_be("add_prefix_space", False, "Heedful reads texts as they are")
    merges, ids = _merges(folder.require(_MERGES)), _ids(path)
    for piece in folder.read_config(_ADDED).values:
        if piece not in ids:
            raise UserError(
                f"{folder.path / _ADDED} adds `{piece}`, which may be a marker or text: save the tokenizer with "
                f"`save_pretrained` of `transformers`, so that {_LIBRARY} says which."
            )
    try:
        library = Library(models.BPE(vocab=ids, merges=merges))
    except Exception as error:  # the library raises bare Exception
        why = " ".join(str(error).split())
        raise UserError(f"{path} and {_MERGES} do not fit together ({why}): copy both again.") from error
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return path, library


def _ids(path: Path) -> dict[str, int]:
    ids = read_json(path)
    if not isinstance(ids, dict) or not ids or not all(type(number) is int and number >= 0 for number in ids.values()):
        raise UserError(f"{path} must contain pieces with their ids, but contains something else: copy it again.")
    refuse_long_pieces(path, ids)
    return ids


def _merges(path: Path) -> list[tuple[str, str]]:
    """Read one merge per line: two pieces, separated by a space."""
    merges = []
    for number, line in enumerate(read_bytes(path).decode(errors="replace").split("\n"), start=1):
        pair = line.rstrip("\r").split(" ")
        if line.startswith("#version") or not line.strip():
            continue
        if len(pair) != 2:
            raise UserError(f"{path}: line {number:,} must be two pieces, but is `{line[:60]}`: copy it again.")
        merges.append((pair[0], pair[1]))
    return merges


def _refuse_other_parts(described: Mapping[str, Any], path: Path) -> None:
    """Refuse a tokenizer that is not lossless byte-level BPE."""
    for part, wanted in (("model", "BPE"), ("decoder", "ByteLevel")):
        kind = (described[part] or {}).get("type")
        if kind != wanted:
            raise UserError(f"{path}: `{part}` is {kind or 'missing'}, but must be {wanted}, as in GPT-2 and Llama 3.")
    if (described["normalizer"] or {"type": "NFC"})["type"] != "NFC":
        kind = described["normalizer"]["type"]
        raise UserError(f"{path}: `normalizer` is {kind}, but must be NFC or missing: Heedful reads texts as they are.")
    steps = described["pre_tokenizer"] or {"type": "missing"}
    steps = steps.get("pretokenizers", [steps])
    if steps[-1]["type"] != "ByteLevel":
        raise UserError(f"{path}: `pre_tokenizer` ends with {steps[-1]['type']}, but must end with ByteLevel.")
    for step in steps:
        CheckedConfig(path, step).must_be("add_prefix_space", False, "Heedful reads texts as they are")
