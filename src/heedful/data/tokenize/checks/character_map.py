"""Rules of normalisation as SentencePiece compiles them: checked here, as the library that applies them trusts them.

    rules   size of the trie in bytes, as four bytes; the trie; texts that replace what was found, each ended by a zero

The trie is a double array of units of 32 bits (Aoe 1989; darts-clone). From the unit at index i, the byte c leads to
the unit at (i ^ offset) ^ c if that has the label c. A unit with the bit `leaf` has a value at i ^ offset: the index of
a text.
"""

from typing import Final

import numpy as np

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
