"""The text that each piece of a vocabulary adds to a target, and which pieces can be parts of given words."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import UserError
from heedful.data.tokenize.own_tokenizer import OwnTokenizer
from heedful.data.tokenize.tokenizer import Tokenizer

REST: Final = 4  # the kind of a piece that only continues a character
NOTHING: Final = 5  # the kind of markers, and of a piece without text
KINDS: Final = 6  # those of other pieces: 2 if it begins with a letter, plus 1 if it ends with one
Pieces = Mapping[bytes, Sequence[int]]


class Shape(NamedTuple):
    """What of a piece's text decides where words begin and end."""

    kind: int
    boundaries: tuple[int, ...]  # places inside it, in bytes

    @property
    def begins(self) -> bool:
        """Whether it begins with a letter."""
        return self.kind in (2, 3)

    @property
    def ends(self) -> bool:
        """Whether it ends with a letter."""
        return self.kind in (1, 3)


@dataclass(frozen=True)
class _Index:
    """Pieces by parts of their texts."""

    whole: Pieces
    heads: Pieces  # by what comes before a boundary inside
    tails: Pieces  # by what comes after one
    inner: Pieces  # by what is between two


class Spelling:
    """How the pieces of a vocabulary spell texts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        if isinstance(tokenizer, OwnTokenizer):
            raise UserError(
                "The vocabulary is a tokenizer of your program, of which Heedful does not know where words begin: "
                "leave out required and forbidden words."
            )
        self.tokenizer = tokenizer
        first = tokenizer.markers
        spelled = tokenizer.spelled(range(first, tokenizer.size))
        self.texts: list[bytes] = [b""] * first + spelled
        self.shapes: list[Shape] = [shape_of(text) for text in self.texts]
        self.kind_V: NDArray[np.int64] = np.array([shape.kind for shape in self.shapes])

    @property
    def size(self) -> int:
        """The number of tokens."""
        return len(self.texts)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of pieces of each kind."""
        return np.bincount(self.kind_V, minlength=KINDS)

    @property
    def has_empty(self) -> bool:
        """Whether a piece that is not a marker has no text."""
        return int(self.counts[NOTHING]) > self.tokenizer.markers

    @cached_property
    def index(self) -> _Index:
        """Pieces by parts of their texts."""
        whole, heads, tails, inner = (defaultdict[bytes, list[int]](list) for _ in range(4))
        for token, (text, shape) in enumerate(zip(self.texts, self.shapes, strict=True)):
            if shape.kind == NOTHING:
                continue
            whole[text].append(token)
            for place in shape.boundaries:
                heads[text[:place]].append(token)
                tails[text[place:]].append(token)
            for number, begin in enumerate(shape.boundaries):
                for end in shape.boundaries[number + 1 :]:
                    inner[text[begin:end]].append(token)
        return _Index(whole, heads, tails, inner)

    def written(self, words: str) -> str | None:
        """Return words as texts of this vocabulary have them; None if a part of them is not in the vocabulary."""
        ids = self.tokenizer.encode(words)
        text = self.tokenizer.decode(ids).strip()
        return None if self.tokenizer.unknown in ids or not text else text

    def usual(self, words: str) -> list[list[int]]:
        """Return the pieces that the vocabulary has for words, at the start of a text and after other words."""
        first = self.tokenizer.encode(words)
        twice = self.tokenizer.encode(f"{words} {words}")
        return [first, twice[len(first) :]] if twice[: len(first)] == first else [first]


def shape_of(text: bytes) -> Shape:
    """Return the shape of a piece's text."""
    letters: list[tuple[int, bool]] = []  # where each character begins, and whether it is a letter
    place = rest = _continued(text, 0)
    if not text:
        return Shape(NOTHING, ())
    if rest == len(text):
        return Shape(REST, ())
    if rest:
        letters.append((0, True))  # most characters of several bytes are letters
    while place < len(text):
        end = max(place + 1, _continued(text, place + 1))
        try:
            letters.append((place, is_letter(text[place:end].decode())))
        except UnicodeDecodeError:
            letters.append((place, begins_letter(text[place:end])))
        place = end
    boundaries = tuple(at for (_, before), (at, after) in pairwise(letters) if not (before and after))
    return Shape(2 * letters[0][1] + letters[-1][1], boundaries)


def _continued(text: bytes, place: int) -> int:
    """Return the end of the bytes from here on that continue a character."""
    while place < len(text) and 0x80 <= text[place] < 0xC0:
        place += 1
    return place


def is_letter(character: str) -> bool:
    """Whether words are made of such characters."""
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


def at_boundary(text: str, place: int) -> bool:
    """Whether a word may begin or end before this character of a text."""
    return not (0 < place < len(text) and is_letter(text[place - 1]) and is_letter(text[place]))


def occurrences(text: str, words: str) -> Iterator[int]:
    """Yield where some words begin in a text, as whole words."""
    for start in _all_places(text, words):
        if at_boundary(text, start) and at_boundary(text, start + len(words)):
            yield start


def _all_places(text: str, words: str) -> Iterator[int]:
    """Yield where some words begin in a text, in time linear in both: places may overlap.

    Knuth, Morris and Pratt 1977: `borders[n]` is the length of the longest proper start of words[:n] that ends it.
    """
    first = text.find(words)
    if first < 0 or not words:
        yield from range(0 if words else len(text) + 1)
        return
    borders, border = [0, 0], 0
    for letter in words[1:]:
        while border and words[border] != letter:
            border = borders[border]
        border += words[border] == letter
        borders.append(border)
    matched = 0
    for place in range(first, len(text)):
        while matched and (matched == len(words) or words[matched] != text[place]):
            matched = borders[matched]
        matched += words[matched] == text[place]
        if matched == len(words):
            yield place + 1 - matched


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
