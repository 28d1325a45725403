"""Vocabularies of encoders, in Heedful's order: BERT's WordPiece, RoBERTa's byte-level BPE, XLM-RoBERTa's unigrams."""

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
from heedful.interop.transformers.encoders.kinds import ROBERTA, XLM_ROBERTA, Kind
from heedful.interop.transformers.model_folder import CheckedConfig, ModelFolder
from heedful.interop.transformers.tokenizers.byte_level import byte_level_library
from heedful.interop.transformers.tokenizers.own_order import kind_of_library, read_own_order
from heedful.interop.transformers.tokenizers.vocabulary_files import (
    UNNAMED,
    load_library,
    refuse_long_pieces,
    refuse_other_size,
)

_LIST, _LIBRARY, _CONFIG, _ADDED = "vocab.txt", "tokenizer.json", "tokenizer_config.json", "added_tokens.json"
_OURS: Final = (*SPECIALS, MASK)
_THEIRS: Final[Mapping[str, str]] = {  # in the order of `_OURS`: config keys and default names
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
}
_CLASSES: Final = (
    *(name + fast for name in ("BertTokenizer", "DistilBertTokenizer") for fast in ("", "Fast")),
    "PreTrainedTokenizerFast",
    "TokenizersBackend",
)
_PARTS: Final[Mapping[str, str]] = {  # how BERT splits text, as class names of the tokenizers library
    "model": "WordPiece",
    "normalizer": "BertNormalizer",
    "pre_tokenizer": "BertPreTokenizer",
}
_INSIDE: Final = "##"  # prefix of a piece that continues a word


@dataclass(frozen=True, eq=False)
class EncoderVocabulary:
    """A tokenizer, and the row of the folder's matrices that belongs to each of its ids."""

    tokenizer: Tokenizer
    rows: tuple[int, ...]
    kind: str = "wordpiece"  # the value of a recipe's `tokenizer.kind`


def read_vocabulary(folder: ModelFolder, kind: Kind) -> EncoderVocabulary:
    """Read a folder's vocabulary, or raise a UserError that says why it cannot be read."""
    own = read_own_order(folder)
    if own is not None:
        return EncoderVocabulary(own, tuple(range(own.size)), kind_of_library(own))
    if kind is ROBERTA:
        return _in_our_order(folder, *byte_level_library(folder), "byte_bpe")
    if kind is XLM_ROBERTA:
        return _in_our_order(folder, *_unigram_library(folder), "unigram")
    return read_wordpiece(folder)


def read_wordpiece(folder: ModelFolder) -> EncoderVocabulary:
    """Read a vocabulary as BERT has it, or raise a UserError that says why it cannot be read."""
    config = folder.read_config(_CONFIG)
    if config.values.get("tokenizer_class") is not None:
        config.choice("tokenizer_class", {name: name for name in _CLASSES})
    config.must_be("do_basic_tokenize", True, "Heedful always splits text into words first")
    config.must_be("never_split", [], "Heedful splits every word at punctuation")
    where, theirs = _library(folder)
    markers = [_content(config.values.get(key) or usual) for key, usual in _THEIRS.items()]
    pieces, rows = _ordered(folder, where, theirs, markers, config, "BERT")
    return EncoderVocabulary(_tokenizer(pieces, theirs, config), rows)


def _ordered(
    folder: ModelFolder, where: Path, theirs: Library, markers: Sequence[str], config: CheckedConfig, whose: str
) -> tuple[list[str], tuple[int, ...]]:
    """Return all pieces in our order, and the row of each: markers first, then all others in the old order."""
    for file, piece in _added(folder, theirs, config):
        if piece not in markers:
            raise UserError(
                f"{folder.path / file} adds `{piece}` to the vocabulary, but Heedful supports only {whose}'s own "
                "pieces and its markers."
            )
    ids = theirs.get_vocab()
    for marker in markers:
        if marker not in ids:
            raise UserError(f"{where} lacks the piece `{marker}`: it is not a {whose} vocabulary.")
    refuse_other_size(where, max(ids.values()) + 1, folder)
    names = {row: piece for piece, row in ids.items() if piece not in ("", *_OURS) and not piece.startswith(UNNAMED)}
    first = [ids[marker] for marker in markers]
    others = [row for row in range(folder.config.number("vocab_size")) if row not in first]
    return [*_OURS, *(names.get(row, f"{UNNAMED}{row}]") for row in others)], (*first, *others)


# --- RoBERTa and XLM-RoBERTa ------------------------------------------------------------------------------------------

_MARKERS: Final = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def _in_our_order(folder: ModelFolder, where: Path, theirs: Library, kind: str) -> EncoderVocabulary:
    """Return a tokenizer that splits text as theirs does, with ids in our order."""
    config = folder.read_config(_CONFIG)
    named = _MARKERS | {"mask_token": MASK}
    markers = [_content(config.values.get(key) or usual) for key, usual in named.items()]
    pieces, rows = _ordered(folder, where, theirs, markers, config, "RoBERTa")
    described = json.loads(theirs.to_str())
    model = described["model"]
    if kind == "unigram":
        scores = {piece: score for piece, score in model["vocab"] if piece not in _OURS}
        # The least score of all is what unknown letters are scored by, so it must stay the least.
        least = min(score for _, score in model["vocab"])
        model["vocab"] = [[piece, scores.get(piece, least)] for piece in pieces]
        model["unk_id"] = UNKNOWN
    else:
        model["vocab"] = {piece: number for number, piece in enumerate(pieces)}
        model["unk_token"] = None  # every byte has a piece
    described |= {"added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    library = load_library(json.dumps(described).encode(), where)
    library.add_special_tokens(list(_OURS))
    return EncoderVocabulary(Tokenizer(library), rows, kind)


def _unigram_library(folder: ModelFolder) -> tuple[Path, Library]:
    """Read the library's tokenizer of pieces with scores."""
    path = folder.require(_LIBRARY)
    library = load_library(read_bytes(path), path)
    for part, wanted in (("model", "Unigram"), ("decoder", "Metaspace")):
        found = type(getattr(library, part)).__name__
        if found != wanted:
            raise UserError(f"{path}: `{part}` is {found}, but must be {wanted}, as in XLM-RoBERTa.")
    return path, library


# --- BERT -------------------------------------------------------------------------------------------------------------


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
