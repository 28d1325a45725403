"""Where the tags of words go in a translation: around the words that are linked to those that they were around.

A word of the translation takes the tags of the word that it reads most of. Words between two with the same tags take
them too. No tag is lost: one that no word takes goes to the word that reads most of its words, or stays empty there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from heedful.server.html import Span

_CORE: Final = re.compile(r"\w(?:.*\w)?", re.DOTALL)  # a word without the punctuation around it
_MOST: Final = 64  # words of an element that are looked at
_WORD: Final = re.compile(r"(?P<before>\s*+)(?P<word>\S++)|(?P<rest>\s++)\Z")
_NAMED: Final = re.compile(r"(?i)\sid\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>]+)")

Path = tuple[int, ...]  # indices of the spans around a word, the outermost first


@dataclass(frozen=True)
class _Word:
    """A word of the translation, what is before it, and how much it reads of each word of the text."""

    before: str
    text: str
    reads: Mapping[int, float]

    @property
    def source(self) -> int:
        """The word that it reads most of."""
        return max(self.reads, key=lambda number: self.reads[number])


def plain(text: str) -> str:
    """Return a text as markup."""
    return escape(text, quote=False)


def with_spans(text: str, spans: Sequence[Span], result: Mapping[str, Any]) -> str:
    """Return a translation as markup; `result` has its words and links, as a `TranslateJob` describes them."""
    places, words = _words(result)
    around = [_path(spans, *_core(text, *place)) for place in places]
    real = [number for number, word in enumerate(words) if word.text]
    paths = {number: around[words[number].source] for number in real}
    _close_gaps(paths, real)
    empty = _place_others(text, spans, around, places, words, paths)
    return _Writer(spans, places, around).write(words, paths, empty)


def _words(result: Mapping[str, Any]) -> tuple[list[tuple[int, int]], list[_Word]]:
    """Return where the words of the text are, and the words of the translation."""
    places: list[tuple[int, int]] = []
    words: list[_Word] = []
    cursor = 0
    for sentence in result["sentences"]:
        first, given, written = len(places), sentence["source_words"], sentence["words"]
        if not sentence["links"]:  # of a model without attention, or a long sentence
            given, written = ([*_divided("".join(w["before"] + w["text"] for w in some))] for some in (given, written))
        for word in given:
            begin = cursor + len(word["before"])
            cursor = begin + len(word["text"])
            places.append((begin, cursor))
        for number, word in enumerate(written):
            row = sentence["links"][number] if number < len(sentence["links"]) else ()
            if not any(row):  # nothing is known: words keep their order
                nearest = number * len(given) // max(1, len(written))
                row = [float(index == nearest) for index in range(len(given))]
            words.append(_Word(word["before"], word["text"], {first + index: share for index, share in enumerate(row)}))
    return places, words


def _divided(text: str) -> Iterator[dict[str, str]]:
    """Yield the words of a text, each with the white space before it."""
    for found in _WORD.finditer(text):
        yield {"before": found["before"] or found["rest"] or "", "text": found["word"] or ""}


def _core(text: str, begin: int, end: int) -> tuple[int, int]:
    """Return where a word is without the punctuation around it; where it is nothing else, all of it."""
    found = _CORE.search(text, begin, end)
    return found.span() if found else (begin, end)


def _path(spans: Sequence[Span], begin: int, end: int) -> Path:
    """Return the spans that a word is in, by its middle."""
    middle = (begin + max(begin, end - 1)) // 2
    return tuple(number for number, span in enumerate(spans) if span.begin <= middle < span.end)


def _close_gaps(paths: dict[int, Path], real: Sequence[int]) -> None:
    """Give a word between two with the same tags these tags, if it has no others."""
    for before, between, after in zip(real, real[1:], real[2:], strict=False):
        outer = paths[before]
        if outer == paths[after] and outer[: len(paths[between])] == paths[between]:
            paths[between] = outer


def _place_others(
    text: str,
    spans: Sequence[Span],
    around: Sequence[Path],
    places: Sequence[tuple[int, int]],
    words: Sequence[_Word],
    paths: dict[int, Path],
) -> dict[int, list[int]]:
    """Find words for spans that no word took; return those that stay empty, by the place that they are in.

    Place 2n is before the blanks that word n begins with, 2n + 1 after them.
    """
    taken = {number for path in paths.values() for number in path}
    empty: dict[int, list[int]] = {}
    for number, span in enumerate(spans):
        if number in taken:
            continue
        inside = [index for index, path in enumerate(around) if number in path]
        if inside and paths:
            there = [word for word in paths if inside[0] in words[word].reads] or [*paths]
            nearest = max(there, key=lambda word: sum(words[word].reads.get(index, 0.0) for index in inside[:_MOST]))
            whole = around[inside[0]][: around[inside[0]].index(number) + 1]
            if whole[: len(paths[nearest])] == paths[nearest]:  # it keeps the tags that it has
                paths[nearest] = whole
                taken.update(whole)
                continue
            place = 2 * nearest + 1
        else:
            following = next((index for index, (begin, _) in enumerate(places) if begin >= span.begin), len(places))
            attached = span.begin > 0 and not text[span.begin - 1].isspace()  # to the word before, as a footnote is
            place = 2 * next((word for word in paths if words[word].source >= following), len(words)) + (not attached)
        empty.setdefault(place, []).append(number)
    return empty


class _Writer:
    """Writes words with tags around them."""

    def __init__(self, spans: Sequence[Span], places: Sequence[tuple[int, int]], around: Sequence[Path]) -> None:
        self._spans, self._written = spans, set[int]()
        # Whether a tag is between a word and its punctuation.
        self._after_lead, self._before_trail = set[int](), set[int]()
        for number, span in enumerate(spans):
            inside = [place for place, path in zip(places, around, strict=True) if number in path]
            if inside:
                self._after_lead |= {number} if span.begin > inside[0][0] else set()
                self._before_trail |= {number} if span.end < inside[-1][1] else set()

    def write(self, words: Sequence[_Word], paths: Mapping[int, Path], empty: Mapping[int, Sequence[int]]) -> str:
        """Return the markup of all words."""
        parts: list[str] = []
        opened, trail = list[int](), ""  # the punctuation of the word before
        for index, word in enumerate(words):
            path = paths.get(index, ())
            same = _common(opened, path)
            parts += self._closed(opened[same:], trail)
            del opened[same:]
            parts += [*self._empty(empty.get(2 * index, ())), plain(word.before)]
            parts += self._empty(empty.get(2 * index + 1, ()))
            begin, end = _core(word.text, 0, len(word.text))
            parts += self._begun(path[same:], word.text[:begin])
            opened += path[same:]
            parts.append(plain(word.text[begin:end]))
            trail = word.text[end:]
        parts += self._closed(opened, trail)
        parts += self._empty([*empty.get(2 * len(words), ()), *empty.get(2 * len(words) + 1, ())])
        return "".join(parts)

    def _empty(self, numbers: Sequence[int]) -> Iterator[str]:
        """Yield the tags of elements without words, which may be inside of each other."""
        opened: list[int] = []
        for number in numbers:
            while opened and self._spans[opened[-1]].depth >= self._spans[number].depth:
                yield self._spans[opened.pop()].closing
            yield self._opened(number)
            opened.append(number)
        yield from (self._spans[number].closing for number in reversed(opened))

    def _begun(self, numbers: Sequence[int], lead: str) -> list[str]:
        """Return what begins a word: tags, the outermost first, and the punctuation before or among them."""
        first = next((place for place, number in enumerate(numbers) if number in self._after_lead), len(numbers))
        tags = [self._opened(number) for number in numbers]
        return [*tags[:first], plain(lead), *tags[first:]]

    def _closed(self, numbers: Sequence[int], trail: str) -> list[str]:
        """Return what ends a word: tags, the innermost first, and the punctuation after or among them."""
        inner = list(reversed(numbers))
        first = next((place for place, number in enumerate(inner) if number not in self._before_trail), len(inner))
        tags = [self._spans[number].closing for number in inner]
        return [*tags[:first], plain(trail), *tags[first:]]

    def _opened(self, number: int) -> str:
        """Return a tag; where it is there again, it has no name that only one element may have."""
        tag = self._spans[number].opening
        if number in self._written:
            return _NAMED.sub("", tag)
        self._written.add(number)
        return tag


def _common(opened: Sequence[int], path: Path) -> int:
    """Return how many of the tags that are open stay open."""
    return next((place for place, pair in enumerate(zip(opened, path, strict=False)) if pair[0] != pair[1]),
                min(len(opened), len(path)))  # fmt: skip
