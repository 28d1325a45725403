"""Letters of words as numbers, without a vocabulary: every model reads every letter.

A letter is a Unicode character. Those below U+0800 (Latin, Greek, Cyrillic, Hebrew, Arabic and more) have a number of
their own; all others share as many numbers, by remainder, as in Clark et al. 2022, 3.1. Long words keep their first and
last letters, which carry most of what letters say of a word.
"""

from collections.abc import Iterable, Sequence
from typing import Final

LETTERS: Final = 4096  # numbers
LONGEST_WORD: Final = 16  # letters
_OWN: Final = 0x800
_HALF: Final = LONGEST_WORD // 2


def letters_of(word: str) -> list[int]:
    """Return the numbers of a word's letters, at most LONGEST_WORD of them."""
    kept = word if len(word) <= LONGEST_WORD else word[:_HALF] + word[-_HALF:]
    return [code if code < _OWN else _OWN + code % _OWN for code in map(ord, kept)]


def spell(words: Iterable[str]) -> tuple[list[int], Sequence[int]]:
    """Return the letters of words, one after the other, and how many each word has."""
    spelled = [letters_of(word) for word in words]
    return [letter for letters in spelled for letter in letters], [len(letters) for letters in spelled]
