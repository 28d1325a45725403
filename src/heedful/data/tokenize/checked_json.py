"""A tokenizer.json, checked before its library reads it: what the library trusts can end the process or fill memory."""

import base64
import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

LONGEST_PIECE: Final = 20_000  # characters: the library follows a piece letter by letter, each in the one before it
LONGEST_WORD: Final = 1_000  # characters of a word that WordPiece splits; usually 100
MOST_PIECES: Final = 20_000_000
_DEEPEST: Final = 20  # levels of parts inside parts
_LISTS: Final = ("normalizers", "pretokenizers", "decoders")


def check_tokenizer_json(data: bytes) -> None:
    """Raise ValueError for pieces, numbers or rules that no tokenizer has."""
    try:
        content = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict):
        raise ValueError("it has no `model`")
    pieces = list(_pieces(model.get("vocab")))
    added = content.get("added_tokens")
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise ValueError("its `added_tokens` are not a list of objects")
    for piece in (*pieces, *(token.get("content") for token in added)):
        if not isinstance(piece, str):
            raise ValueError("a piece is not a text")
        if len(piece) > LONGEST_PIECE:
            raise ValueError(f"a piece has {len(piece):,} characters, but the longest may have {LONGEST_PIECE:,}")
    unknown = model.get("unk_token")
    if isinstance(unknown, str) and unknown not in set(pieces):
        raise ValueError(f"the piece `{unknown[:40]}` for what is unknown is not in its vocabulary")
    for token in added:
        _check_number(token.get("id"))
    if model.get("type") == "WordPiece":
        # Check the length up to which WordPiece splits words: its time grows with the cube of it.
        length = model.get("max_input_chars_per_word", 0)
        if type(length) is not int or not 0 <= length <= LONGEST_WORD:
            raise ValueError(
                f"`max_input_chars_per_word` is {json.dumps(length)[:40]}, but must be from 0 to {LONGEST_WORD:,}"
            )
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        _check_part(content.get(part))


def _pieces(vocabulary: object) -> Iterator[object]:
    """Yield the pieces, and check their numbers; in a list, the number of a piece is its place."""
    if isinstance(vocabulary, dict):
        for piece, number in vocabulary.items():
            _check_number(number)
            yield piece
    elif isinstance(vocabulary, list):
        for entry in vocabulary:
            if not isinstance(entry, list) or len(entry) != 2:
                raise ValueError("an entry of its vocabulary is not a piece and its score")
            yield entry[0]
    else:
        raise ValueError("its `model` has no `vocab`")


def _check_number(number: object) -> None:
    if type(number) is not int or not 0 <= number < MOST_PIECES:
        raise ValueError(
            f"a piece has the id {json.dumps(number)[:40]}, but ids go from 0 to less than {MOST_PIECES:,}"
        )


def _check_part(part: Any, depth: int = 0) -> None:
    """Check a part of the tokenizer and the parts inside it."""
    if depth > _DEEPEST:
        raise ValueError("it is nested too deep")
    if not isinstance(part, dict):
        return
    if part.get("type") == "Precompiled":
        rules = part.get("precompiled_charsmap")
        if not isinstance(rules, str):
            raise ValueError("`precompiled_charsmap` is not a text")
        check_character_map(base64.b64decode(rules))
    for name in _LISTS:
        for inner in part.get(name) or () if isinstance(part.get(name), list) else ():
            _check_part(inner, depth + 1)


# --- rules of normalisation as SentencePiece compiles them: checked here, as the library that applies them ------------
#
#     rules   size of the trie in bytes, as four bytes; the trie; texts that replace what was found, each ended by 0
#
# The trie is a double array of units of 32 bits (Aoe 1989; darts-clone). From the unit at index i, the byte c leads to
# the unit at (i ^ offset) ^ c if that has the label c. A unit with the bit `leaf` has a value at i ^ offset: the index
# of a text.


_HEADER: Final = 4  # bytes of the trie's size
_UNIT: Final = 4  # bytes
_LETTERS: Final = 0xFF  # a unit has a child for each byte
_IS_VALUE: Final = 1 << 31
_LEAF: Final = 1 << 8
_WIDE: Final = 1 << 9  # the offset is shifted by eight bits more
_OFFSET_SHIFT: Final = 10


def check_character_map(rules: bytes) -> None:
    """Raise ValueError if the trie leads outside of itself, or its values outside of the texts."""
    size = int.from_bytes(rules[:_HEADER], "little")
    if size % _UNIT or not _UNIT <= size <= len(rules) - _HEADER:
        raise ValueError("the trie has no size that fits")
    units = np.frombuffer(rules, "<u4", size // _UNIT, _HEADER).astype(np.int64)
    texts = np.frombuffer(rules, np.uint8, offset=_HEADER + size)
    if not _is_utf8(texts.tobytes()):
        raise ValueError("the texts are not UTF-8")
    offsets = (units >> _OFFSET_SHIFT) << ((units & _WIDE) >> 6)
    bases = np.arange(len(units)) ^ offsets
    is_node = units & _IS_VALUE == 0
    is_node[0] = True  # the root is followed whatever it is
    if (bases[is_node] | _LETTERS).max(initial=0) >= len(units):
        raise ValueError("the trie leads outside of itself")
    values = units[bases[is_node & (units & _LEAF != 0)]] & (_IS_VALUE - 1)
    if values.max(initial=-1) >= len(texts):
        raise ValueError("a value is outside of the texts")
    if (texts[values] & 0xC0 == 0x80).any():
        raise ValueError("a value is inside of a character")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
