"""HTML whose texts are translated: tags, comments, scripts and attributes stay as they are written.

A text is what lies between two tags, but for tags of words (`<b>`, `<a>`, ...): a sentence with a word in bold is one
text, with a `Span` for that word. Where the span goes in the translation is for `html_spans.py` to say.
"""

import re
from collections.abc import Sequence
from html import unescape
from typing import Final, NamedTuple

_KEPT: Final = frozenset(
    {"script", "style", "code", "pre", "kbd", "samp", "textarea", "noscript", "template", "math", "svg"}
)
_VOID: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_OF_WORDS: Final = frozenset(
    {"a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "ins", "mark",
     "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var"}
)  # fmt: skip
_MARKUP: Final = re.compile(  # possessive: time is linear whatever the page is
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"
    r"|<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)(?P<rest>(?:[^=>]++|=\s*+(?:\"[^\"]*+\"?|'[^']*+'?)?)*+)(?:>|\Z)"
    r"|<[!?/][^>]*+(?:>|\Z)",
    re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(r"([^\s=/>]++)(?:\s*+=\s*+(\"[^\"]*+\"?|'[^']*+'?|[^\s>]*+))?")
_ENDS: Final = {  # elements in which nothing but their end is markup
    name: re.compile(rf"(?i)</{name}(?=[\s/>])|\Z") for name in ("script", "style", "textarea")
}
_MOST_SPANS: Final = 200  # of a text: a page that has more is no prose, and time must not grow with their square
_BLANKS: Final = " \t\n\r\f"  # which a browser shows as one space; a no-break space is a letter
_BLANK: Final = re.compile(rf"[{_BLANKS}]+")


class Span(NamedTuple):
    """An element around some words of a text."""

    begin: int
    end: int
    opening: str
    closing: str
    depth: int = 0  # number of spans around it


class _Piece(NamedTuple):
    """A piece of a page that may belong to a text: letters, or a tag of words."""

    raw: str
    name: str = ""  # of a tag
    ends: bool = False  # whether it is an end tag

    @property
    def is_spoken(self) -> bool:
        """Whether it has anything to translate."""
        return not self.name and bool(unescape(self.raw).strip())


class HtmlTexts:
    """The texts of a page with the spans in them, and the page with other markup in their places."""

    def __init__(self, page: str) -> None:
        self._parts: list[str | int] = []  # what is kept, and indices of texts
        self.texts: list[str] = []
        self.spans: list[tuple[Span, ...]] = []  # of each text: outer ones first
        self._open: list[str] = []  # elements whose texts are not translated
        self._pieces: list[_Piece] = []  # that were not divided into texts yet
        cursor = 0
        while match := _MARKUP.search(page, cursor):
            self._add_letters(page[cursor : match.start()])
            cursor, name = match.end(), (match["name"] or "").lower()
            self._add_tag(name, match)
            if not self._open and name in _OF_WORDS and not match["rest"].endswith("/"):
                self._pieces.append(_Piece(match[0], name, bool(match["end"])))
            else:
                self._divide()
                self._parts.append(match[0])
            if name in _ENDS and self._open[-1:] == [name]:
                end = _ENDS[name].search(page, cursor)
                assert end is not None, "every text has an end"
                self._parts.append(page[cursor : end.start()])
                cursor = end.start()
        self._add_letters(page[cursor:])
        self._divide()

    def with_markup(self, written: Sequence[str]) -> str:
        """Return the page with other markup in the place of each text and its spans."""
        return "".join(part if isinstance(part, str) else written[part] for part in self._parts)

    def _add_letters(self, raw: str) -> None:
        if self._open:
            self._parts.append(raw)
        elif raw:
            self._pieces.append(_Piece(raw))

    def _add_tag(self, name: str, tag: re.Match[str]) -> None:
        """Note where an element begins or ends whose texts are not translated."""
        if not name:
            return
        if tag["end"]:
            if self._open[-1:] == [name]:
                self._open.pop()
        elif name not in _VOID and not tag["rest"].endswith("/") and self._keeps(name, tag["rest"]):
            self._open.append(name)

    def _keeps(self, name: str, attributes: str) -> bool:
        """Whether the texts of an element are not translated; one inside of another of its name is counted."""
        values = {name.lower(): value.strip("\"'").lower() for name, value in _ATTRIBUTE.findall(attributes)}
        return name in _KEPT or self._open[-1:] == [name] or values.get("translate") == "no"

    def _divide(self) -> None:
        """Make texts of the pieces so far: tags without a partner among them stand between two texts."""
        pieces, self._pieces = self._pieces, []
        partners, begin = _partners(pieces), 0
        for index, piece in enumerate(pieces):
            if piece.name and index not in partners:
                self._add_text(pieces, partners, begin, index)
                self._parts.append(piece.raw)
                begin = index + 1
        self._add_text(pieces, partners, begin, len(pieces))

    def _add_text(self, pieces: Sequence[_Piece], partners: dict[int, int], begin: int, end: int) -> None:
        """Make a text of some pieces. Tags around all of it and blanks at its ends are no part of it."""
        after: list[str] = []
        while begin < end:
            first, last = pieces[begin], pieces[end - 1]
            if first.name and partners[begin] == end - 1:
                after.append(last.raw)
                end -= 1
            elif not last.name and not last.raw.strip(_BLANKS):
                after.append(last.raw)
                end -= 1
                continue
            elif first.name or first.raw.strip(_BLANKS):
                break
            self._parts.append(first.raw)
            begin += 1
        spoken = {index for index in range(begin, end) if pieces[index].is_spoken}
        if len(spoken) > 1 and end - begin <= 2 * _MOST_SPANS:
            self._add_words(pieces[begin:end])
        else:
            for index in range(begin, end):
                if index in spoken:
                    self._add_words([pieces[index]])
                else:
                    self._parts.append(pieces[index].raw)
        self._parts += reversed(after)

    def _add_words(self, pieces: Sequence[_Piece]) -> None:
        """Make a text of pieces, with single spaces, and spans of their tags; blanks at its ends are kept."""
        partners, spans, text, depth = _partners(pieces), dict[int, Span](), "", 0
        for index, piece in enumerate(pieces):
            if not piece.name:
                letters = _BLANK.sub(" ", unescape(piece.raw))
                text += letters[1:] if text.endswith(" ") and letters.startswith(" ") else letters
            elif piece.ends:
                spans[partners[index]] = spans[partners[index]]._replace(end=len(text), closing=piece.raw)
                depth -= 1
            else:
                spans[index] = Span(len(text), len(text), piece.raw, "", depth)
                depth += 1
        lead, trail = len(text) - len(text.lstrip(" ")), len(text.rstrip(" "))
        raw = [piece.raw for piece in pieces if not piece.name]
        self._parts += [raw[0][: len(raw[0]) - len(raw[0].lstrip(_BLANKS))] if lead else "", len(self.texts)]
        self._parts.append(raw[-1][len(raw[-1].rstrip(_BLANKS)) :] if trail < len(text) else "")
        self.texts.append(text[lead:trail])
        moved = (span._replace(begin=max(0, span.begin - lead), end=span.end - lead) for span in spans.values())
        self.spans.append(tuple(moved))


def _partners(pieces: Sequence[_Piece]) -> dict[int, int]:
    """Return the indices of tags that belong together, both ways; one that closes nothing separates all around it."""
    partners, opened = dict[int, int](), list[int]()
    for index, piece in enumerate(pieces):
        if piece.ends and opened and pieces[opened[-1]].name == piece.name:
            partners[index] = opened.pop()
            partners[partners[index]] = index
        elif piece.ends:
            opened.clear()
        elif piece.name:
            opened.append(index)
    return partners
