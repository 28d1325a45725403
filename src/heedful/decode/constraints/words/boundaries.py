"""Whole words of a text: an occurrence that neither begins nor ends between two letters.

Letters are what words are made of: letters and digits of all scripts, their marks, and the underscore. So "cat" occurs
in "the cat's" and "(cat)", but not in "catalog" or "cat_1".
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache


def is_letter(character: str) -> bool:
    """Whether words are made of such characters."""
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


def at_boundary(text: str, place: int) -> bool:
    """Whether a word may begin or end before this character of a text."""
    return not (0 < place < len(text) and is_letter(text[place - 1]) and is_letter(text[place]))


def occurrences(text: str, words: str) -> Iterator[int]:
    """Yield where some words begin in a text, as whole words."""
    for found in re.finditer(f"(?={re.escape(words)})", text):
        if at_boundary(text, found.start()) and at_boundary(text, found.start() + len(words)):
            yield found.start()


def occurs(text: str, words: str) -> bool:
    """Whether a text contains some words, as whole words."""
    return next(occurrences(text, words), None) is not None


@cache
def begins_letter(beginning: bytes) -> bool:
    """Whether most characters whose UTF-8 begins with these bytes are letters: a piece may be a part of a character."""
    size = 2 if beginning[0] < 0xE0 else 3 if beginning[0] < 0xF0 else 4
    if not 0xC2 <= beginning[0] <= 0xF4 or not 0 < size - len(beginning) <= 2:
        return False  # no character; or any of the many beyond U+FFFF, of which texts have the symbols
    votes = [0, 0]
    for rest in range(64 ** (size - len(beginning))):
        tail = [0x80 + (rest >> 6 * place) % 64 for place in reversed(range(size - len(beginning)))]
        character = (beginning + bytes(tail)).decode(errors="replace")
        if len(character) == 1 and unicodedata.category(character)[0] != "C":
            votes[is_letter(character)] += 1
    return votes[True] > votes[False]
