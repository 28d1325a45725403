"""HTML whose texts are translated: tags, comments, scripts and attributes stay as they are written."""

import re
from collections.abc import Sequence
from html import escape, unescape
from typing import Final

_KEPT: Final = frozenset(
    {"script", "style", "code", "pre", "kbd", "samp", "textarea", "noscript", "template", "math", "svg"}
)
_VOID: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
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


class HtmlTexts:
    """The texts of a page, each between two tags, and the page with others in their place."""

    def __init__(self, page: str) -> None:
        self._parts: list[str | int] = []  # what is kept, and indices of texts
        self.texts: list[str] = []
        self._open: list[str] = []  # elements whose texts are not translated
        cursor = 0
        while match := _MARKUP.search(page, cursor):
            self._add_text(page[cursor : match.start()])
            self._parts.append(match[0])
            cursor = match.end()
            if match["name"]:
                name = match["name"].lower()
                self._add_tag(name, match)
                if self._open[-1:] == [name] and name in _ENDS:
                    end = _ENDS[name].search(page, cursor)
                    assert end is not None, "every text has an end"
                    self._parts.append(page[cursor : end.start()])
                    cursor = end.start()
        self._add_text(page[cursor:])

    def with_texts(self, texts: Sequence[str]) -> str:
        """Return the page with other texts."""
        return "".join(part if isinstance(part, str) else escape(texts[part], quote=False) for part in self._parts)

    def _add_text(self, raw: str) -> None:
        """Take a text, unless it is blank or kept."""
        text = raw if self._open else unescape(raw)
        if self._open or not text.strip():
            self._parts.append(raw)
        else:
            self._parts.append(len(self.texts))
            self.texts.append(text)

    def _add_tag(self, name: str, tag: re.Match[str]) -> None:
        """Note where an element begins or ends whose texts are not translated."""
        if tag["end"]:
            if self._open[-1:] == [name]:
                self._open.pop()
        elif name not in _VOID and not tag["rest"].endswith("/") and self._keeps(name, tag["rest"]):
            self._open.append(name)

    def _keeps(self, name: str, attributes: str) -> bool:
        """Whether the texts of an element are not translated; one inside of another of its name is counted."""
        values = {name.lower(): value.strip("\"'").lower() for name, value in _ATTRIBUTE.findall(attributes)}
        return name in _KEPT or self._open[-1:] == [name] or values.get("translate") == "no"
