"""BERT's vocabulary in Heedful's order, and a tokenizer that splits text exactly as BERT's own does.

`[PAD]`, `[CLS]`, `[SEP]`, `[UNK]` and `[MASK]` become `<pad>`, `<s>`, `</s>`, `<unk>` and `<mask>`. All other rows
follow in their old order, including those that no text can produce: `[unused1]` stays a piece, because text is split at
brackets first. A row without a piece of its own is named `[row-30522]`: this happens where a matrix is larger than its
vocabulary, and where a piece is listed twice, in which case the last one counts.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers

from heedful.base.errors import UserError
from heedful.base.files import read_bytes
from heedful.data.tokenize.tokenizer import MASK, SPECIALS, UNKNOWN, Tokenizer
from heedful.interop.model_folder import CheckedConfig, ModelFolder
from heedful.interop.vocabulary_files import UNNAMED, load_library, refuse_long_pieces, refuse_other_size

_LIST, _LIBRARY, _CONFIG, _ADDED = "vocab.txt", "tokenizer.json", "tokenizer_config.json", "added_tokens.json"
_OURS: Final = (*SPECIALS, MASK)
_THEIRS: Final[Mapping[str, str]] = {  # in the order of `_OURS`: config keys and default names
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
}
_CLASSES: Final = ("BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend")
_PARTS: Final[Mapping[str, str]] = {  # how BERT splits text, as class names of the tokenizers library
    "model": "WordPiece",
    "normalizer": "BertNormalizer",
    "pre_tokenizer": "BertPreTokenizer",
}
_INSIDE: Final = "##"  # prefix of a piece that continues a word


@dataclass(frozen=True, eq=False)
class BertVocabulary:
    """A tokenizer, and the row of BERT's matrices that belongs to each of its ids."""

    tokenizer: Tokenizer
    rows: tuple[int, ...]


def read_vocabulary(folder: ModelFolder) -> BertVocabulary:
    """Read a folder's vocabulary, or raise a UserError that says why it cannot be read."""
    config = folder.read_config(_CONFIG)
    if config.values.get("tokenizer_class") is not None:
        config.choice("tokenizer_class", {name: name for name in _CLASSES})
    config.must_be("do_basic_tokenize", True, "Heedful always splits text into words first")
    config.must_be("never_split", [], "Heedful splits every word at punctuation")
    where, theirs = _library(folder)
    markers = [_content(config.values.get(key) or usual) for key, usual in _THEIRS.items()]
    for file, piece in _added(folder, theirs, config):
        if piece not in markers:
            raise UserError(
                f"{folder.path / file} adds `{piece}` to the vocabulary, but Heedful supports only BERT's own pieces "
                "and its markers."
            )
    ids = theirs.get_vocab()
    for marker in markers:
        if marker not in ids:
            raise UserError(f"{where} lacks the piece `{marker}`: it is not a BERT vocabulary.")
    refuse_other_size(where, max(ids.values()) + 1, folder)
    names = {row: piece for piece, row in ids.items() if piece not in ("", *_OURS) and not piece.startswith(UNNAMED)}
    first = [ids[marker] for marker in markers]
    others = [row for row in range(folder.config.number("vocab_size")) if row not in first]
    pieces = [*_OURS, *(names.get(row, f"{UNNAMED}{row}]") for row in others)]
    return BertVocabulary(_tokenizer(pieces, theirs, config), (*first, *others))


def _tokenizer(pieces: Sequence[str], theirs: Any, config: CheckedConfig) -> Tokenizer:
    """Build a tokenizer of these pieces. The config overrides the rules of the library's file."""
    rules, accents = theirs.normalizer, config.values.get("strip_accents") is not None
    library = Library(
        models.WordPiece(
            {piece: number for number, piece in enumerate(pieces)},
            unk_token=SPECIALS[UNKNOWN],
            continuing_subword_prefix=_INSIDE,
            max_input_chars_per_word=theirs.model.max_input_chars_per_word,
        )
    )
    library.normalizer = normalizers.BertNormalizer(
        clean_text=rules.clean_text,
        handle_chinese_chars=config.flag("tokenize_chinese_chars", rules.handle_chinese_chars),
        # None means: if text is lowercased.
        strip_accents=config.flag("strip_accents", True) if accents else rules.strip_accents,
        lowercase=config.flag("do_lower_case", rules.lowercase),
    )
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece(prefix=_INSIDE, cleanup=True)
    library.add_special_tokens(list(_OURS))
    return Tokenizer(library)


# --- files ------------------------------------------------------------------------------------------------------------


def _library(folder: ModelFolder) -> tuple[Path, Any]:
    """Read the library's tokenizer, from its own file or from a list with one piece per line, and name the file."""
    path = folder.path / _LIBRARY
    if path.exists():
        theirs = load_library(read_bytes(path), path)
        for part, wanted in _PARTS.items():
            found = getattr(theirs, part)
            if type(found).__name__ != wanted:
                kind = "missing" if found is None else type(found).__name__
                raise UserError(f"{path}: `{part}` is {kind}, but must be {wanted}, as in BERT.")
        prefix = theirs.model.continuing_subword_prefix
        if prefix != _INSIDE:
            raise UserError(
                f'{path}: `continuing_subword_prefix` is {json.dumps(prefix)}, but must be "{_INSIDE}", as in BERT.'
            )
        return path, theirs
    path = folder.require(_LIST)
    library = Library(models.WordPiece(_listed(path), unk_token=_THEIRS["unk_token"]))
    library.normalizer = normalizers.BertNormalizer()
    return path, library


def _listed(path: Path) -> dict[str, int]:
    """Number the pieces of a list. Only "\\n" ends a line: other line separators are pieces."""
    try:
        lines = read_bytes(path).decode().split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error.reason} at byte {error.start:,}): copy it again.") from error
    refuse_long_pieces(path, lines)
    return {line.rstrip(): number for number, line in enumerate(lines) if line.rstrip()}


def _added(folder: ModelFolder, theirs: Any, config: CheckedConfig) -> Iterator[tuple[str, str]]:
    """Yield the pieces that were added to the vocabulary, markers included, each with the file that adds it."""
    for token in theirs.get_added_tokens_decoder().values():
        yield _LIBRARY, token.content
    for piece in folder.read_config(_ADDED).values:
        yield _ADDED, piece
    said = config.values.get("added_tokens_decoder")
    for token in said.values() if isinstance(said, dict) else ():
        yield _CONFIG, _content(token)


def _content(token: Any) -> str:
    """Return a piece, which may be wrapped in a table."""
    return str(token.get("content") if isinstance(token, dict) else token)
