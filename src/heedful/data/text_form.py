"""The form of text that a model reads and writes: normalised, lowercased, split by Moses' rules or not."""

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from unicodedata import combining

from heedful.base.errors import UserError
from heedful.config.data import Data

if TYPE_CHECKING:
    from sacremoses import MosesDetokenizer, MosesTokenizer


class TooLong(str):
    """A blank text in place of a line that is longer than `data.max_line`."""

    __slots__ = ()


TOO_LONG: Final = TooLong()


@dataclass(frozen=True)
class TextForm:
    """What is done to every text before it is tokenized."""

    nfc: bool = False
    lowercase: bool = False
    max_line: int | None = None  # the most characters of a line of a corpus; None is any number

    @classmethod
    def of(cls, data: Data) -> "TextForm":
        """Return the form that a recipe asks for."""
        return cls(data.nfc, data.lowercase, data.max_line)

    def key(self) -> dict[str, object]:
        """Return the form as a part of cache keys; a key added later may enter only where it is not at its default."""
        usual = self.max_line in (None, Data.model_fields["max_line"].default)
        return {"nfc": self.nfc, "lowercase": self.lowercase, **({} if usual else {"max_line": self.max_line})}

    def of_line(self, line: str) -> str:
        """Bring a line of a corpus into the form; one that is too long becomes TOO_LONG, which is blank."""
        return TOO_LONG if self.too_long(line) else self(line)

    def too_long(self, line: str) -> bool:
        """Whether a line of a corpus is longer than the recipe allows."""
        return self.max_line is not None and len(line) > self.max_line

    def check(self, texts: Iterable[str], name: str = "texts", first: int = 1) -> None:
        """Refuse a text for a model that is longer than the lines it was trained on may be.

        `name` is the texts' name in messages, `first` the number of the first.
        """
        for number, text in enumerate(texts, start=first):
            self.check_text(text, f"{name}, line {number:,}")

    def check_text(self, text: str, where: str) -> None:
        """Refuse a text that is too long; `where` names it in messages."""
        if self.too_long(text):
            raise UserError(
                f"{where} has {len(text):,} characters, but this model reads at most {self.max_line:,} "
                "(`data.max_line`): split the line."
            )

    def __call__(self, text: str) -> str:
        """Bring a text into the form."""
        if self.nfc:
            text = compose(text)
        return text.lower() if self.lowercase else text


@dataclass(frozen=True)
class Aligned:
    """A text in a form, and where each of its characters comes from: `[starts[i], ends[i])` of the original."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def of(cls, text: str, form: TextForm) -> "Aligned":
        """Bring a text into a form. Characters that only together have a form come from all of theirs."""
        if form(text) == text:
            return cls(text, range(len(text)), range(1, len(text) + 1))
        starts, ends = list[int](), list[int]()
        for start, end in _units(text, form):
            size = len(form(text[start:end]))
            starts += [start] * size
            ends += [end] * size
        return cls(form(text), starts, ends)


def _units(text: str, form: TextForm) -> Iterator[tuple[int, int]]:
    """Yield stretches whose forms make up the form of the text: letters with their marks; a whole word where these
    depend on each other, as Greek sigmas and Korean letters do; nothing depends on what is beyond a space.
    """
    for word in re.finditer(r"\s|\S+", text):
        begins = [place for place in range(*word.span()) if place == word.start() or not combining(text[place])]
        letters = list(pairwise([*begins, word.end()]))
        joined = "".join(form(text[start:end]) for start, end in letters)
        yield from letters if joined == form(word[0]) else [word.span()]


_MARKS: Final = 30  # on one letter: more than any language writes (UAX 15, 13)


def compose(text: str) -> str:
    """Return a text in Unicode's form NFC, in time that is linear in its length.

    Python sorts the marks of a letter by insertion: a letter with a million marks would take hours. Long runs are
    sorted before, in the same order.
    """
    return unicodedata.normalize("NFC", _sort_long_runs(text))


def is_composed(text: str) -> bool:
    """Whether a text is in the form NFC."""
    return text == _sort_long_runs(text) and unicodedata.is_normalized("NFC", text)


def _sort_long_runs(text: str) -> str:
    if text.isascii() or len(text) <= _MARKS:
        return text
    return _long_runs().sub(_sort_run, text)


def _sort_run(run: re.Match[str]) -> str:
    parts = (part for mark in run[0] for part in unicodedata.normalize("NFD", mark))  # one by one: a few are two
    return "".join(sorted(parts, key=combining))


@cache
def _long_runs() -> re.Pattern[str]:
    """Return the pattern of more marks in a row than texts have."""
    marks = (code for code in range(sys.maxunicode + 1) if combining(chr(code)))
    return re.compile(f"[{_ranges(marks)}]{{{_MARKS + 1},}}+")


def _ranges(letters: Iterable[int]) -> str:
    """Return letters and marks, none of which has a meaning in patterns, as the inside of a class."""
    codes = sorted(set(letters))
    ends = [place for place, (one, other) in enumerate(pairwise([*codes, -1])) if other != one + 1]
    starts = [0, *(place + 1 for place in ends[:-1])]
    return "".join(f"{chr(codes[start])}-{chr(codes[end])}" for start, end in zip(starts, ends, strict=True))


def split_words(text: str, language: str) -> str:
    """Put spaces between words and punctuation by Moses' rules; nothing is escaped."""
    words: str = _tokenizer(language).tokenize(text, return_str=True, escape=False)
    return words


def join_words(text: str, language: str) -> str:
    """Undo `split_words`: make ordinary text of words and punctuation separated by spaces."""
    ordinary: str = _detokenizer(language).detokenize(text.split(), unescape=False)
    return ordinary


@cache
def _tokenizer(language: str) -> "MosesTokenizer":
    from sacremoses import MosesTokenizer

    class QuickTokenizer(MosesTokenizer):  # type: ignore[misc]  # the library has no types
        """Moses' rules, with sets of letters that are made once: the library makes them anew for every full stop.

        Nor does it compare a character with ideographs one by one.
        """

        def __init__(self) -> None:
            super().__init__(language)
            self._alpha, self._lower = frozenset(self.IsAlpha), frozenset(self.IsLower)
            self.NONBREAKING_PREFIXES: frozenset[str] = frozenset(self.NONBREAKING_PREFIXES)
            self.NUMERIC_ONLY_PREFIXES: frozenset[str] = frozenset(self.NUMERIC_ONLY_PREFIXES)
            self.PAD_NOT_ISALNUM: tuple[re.Pattern[str], str] = self.PAD_NOT_ISALNUM
            if self.PAD_NOT_ISALNUM is not MosesTokenizer.PAD_NOT_ISALNUM:  # with tens of thousands of ideographs
                outside = rf"([^{_ranges(map(ord, self.IsAlnum))}\s\.'\`\,\-])"
                self.PAD_NOT_ISALNUM = re.compile(outside), self.PAD_NOT_ISALNUM[1]

        def islower(self, text: str) -> bool:
            return self._lower.issuperset(text)

        def isanyalpha(self, text: str) -> bool:
            return not self._alpha.isdisjoint(text)

    return QuickTokenizer()


@cache
def _detokenizer(language: str) -> "MosesDetokenizer":
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(language)
