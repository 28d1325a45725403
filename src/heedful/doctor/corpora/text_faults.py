"""Recognises faults of lines: names of columns that are read as data, characters that do not belong in a sentence."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from heedful.config.corpora.containers import AnyCorpus
from heedful.data.text_form import is_composed
from heedful.doctor.corpora.rows import Row, RowForm, cells_of
from heedful.doctor.findings import Finding, Part

_NAMES: Final = frozenset(
    re.findall(
        r"\w+",
        """
    id idx index text texts sentence sentences document documents content body title message tweet comment review
    utterance query question answer premise hypothesis passage context headline description input output
    label labels class classes category categories sentiment intent topic genre rating score stars emotion polarity tag
    tags source target src tgt trg sources targets translation reference original lang language
    en de fr es it pt nl ru zh ja ko ar cs pl tr fi sv da no hu ro el he hi uk vi
    english german deutsch french spanish español italian portuguese dutch russian chinese japanese korean arabic
        """,
    )
)
_NUMBERED: Final = re.compile(r"(?<![\s_-])[\s_-]*\d?$")  # sentence1, text_2
_WHOLE_NUMBER: Final = re.compile(r"-?\d{1,18}")
_FEW: Final = 5  # rows that are too few to tell names from data
_WORDS: Final = 3  # words of a usual text; where texts are single words, a name may be one of them
_ADVICE: Final = "otherwise the names are learned as an example."


def find_header(
    part: Part, corpus: AnyCorpus, rows: Sequence[Row], form: RowForm, labels: Counter[str]
) -> list[Finding]:
    """Report a first row that has the names of columns; `rows` are the first ones, `labels` counts all labels."""
    if len(rows) < _FEW or rows[0].line > 1 or not _is_header(rows, form, labels):
        return []
    shown = " | ".join(text for text in (rows[0].first, rows[0].second) if text)
    what = f"the first line looks like the names of columns: “{shown[:60]}”"
    way_out = "Set `header = true`" if hasattr(corpus, "header") else "Delete the line"
    file = ", ".join(corpus.files())
    return [Finding("warning", "header", part, what, f"{way_out}: {_ADVICE}", corpus.title, file, lines=(1,))]


def _is_header(rows: Sequence[Row], form: RowForm, labels: Counter[str]) -> bool:
    first, others = rows[0], rows[1:]
    cells = cells_of(first)
    named = [cell in _NAMES or _NUMBERED.sub("", cell) in _NAMES for cell in cells]
    usual = median(len(row.first.split()) for row in others) >= _WORDS
    if form.labelled:
        if labels[first.second] != 1 or len(labels) == 1:
            return False
        rest = [label for label in labels if label != first.second]
        if all(map(_WHOLE_NUMBER.fullmatch, rest)) and not _WHOLE_NUMBER.fullmatch(first.second):
            return any(named) or (usual and len(cells[0].split()) == 1)
        return named[-1] and (all(named) or (usual and len(cells[0].split()) == 1))
    if form.paired:
        return all(named) and len(set(cells)) == len(cells)
    return all(named) and usual


# --- finds characters that do not belong in a sentence, and cuts a short excerpt that shows them ----------------------


WIDTH: Final = 60  # characters in an excerpt
_BEFORE: Final = 20  # of these, before the match

# What a byte from 0x80 to 0xBF looks like in Latin-1 and in Windows' code page 1252.
_CONTINUATION = "\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
_QUOTES = "«»‘’“”"  # may legitimately follow a capital letter at the end of a word

PATTERNS: Final[Mapping[str, re.Pattern[str]]] = {
    "control": re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]"),
    # Joiners (U+200C, U+200D) are left out: Persian, Hindi and emoji are written with them.
    "invisible": re.compile(
        r"[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb]"
    ),
    "private": re.compile(r"[\ue000-\uf8ff\U000f0000-\U0010ffff]"),
    "spaces": re.compile(r"[\t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]"),
    "replacement": re.compile("\ufffd"),
    "mojibake": re.compile(
        rf"Ã(?![{_QUOTES}](?!\w))[{_CONTINUATION}]"  # Ã¤ and other Western European letters
        rf"|Â(?![{_QUOTES}](?!\w))[\xa0-\xbf]|[âÂ]€[{_CONTINUATION}]|ã(?![«»ªº])[\xa1-\xbf]"  # Â°, â€œ, lowercased ã¤
        rf"|(?:[ÐÑ][{_CONTINUATION}]){{2}}"  # Cyrillic
    ),
    "not_nfc": re.compile(r"[\u0300-\u036f\u1100-\u11ff\u212a\u212b\u2126]"),
    "entities": re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,30}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});"),
    # Placeholders that corpora are published with are not markup.
    "tags": re.compile(r"</?(?!(?i:unk|num|url|user|bos|eos|pad|mask|s)>)[A-Za-z][A-Za-z0-9:-]*(?:\s[^<>]*)?/?>"),
}
_HIDDEN: Final = ("control", "invisible", "private", "spaces")  # kinds of characters that are not printable
_MARKUP: Final = ("entities", "tags")


def find_odd_characters(text: str) -> Sequence[str]:
    """Return the kinds of odd characters in a text, as keys of `FINDING_KINDS`.

    A few quick checks clear most texts: finding a substring is many times faster than matching a pattern.
    """
    plain, printable, marked = text.isascii(), text.isprintable(), "&" in text or "<" in text
    if plain and printable and not marked:
        return ()
    suspected: tuple[str, ...] = () if printable else _HIDDEN
    if not plain:
        if "\ufffd" in text:
            suspected += ("replacement",)
        if "Ã" in text or "Â" in text or "â€" in text or "ã" in text or "Ð" in text or "Ñ" in text:
            suspected += ("mojibake",)
    if marked:
        suspected += _MARKUP
    found = [kind for kind in suspected if PATTERNS[kind].search(text)] if suspected else []
    return found if plain or is_composed(text) else [*found, "not_nfc"]


def excerpt(text: str, kind: str = "", width: int = WIDTH) -> str:
    """Return at most `width` characters around the first odd character; unprintable ones are escaped."""
    match = PATTERNS[kind].search(text) if kind in PATTERNS else None
    start = max(0, match.start() - _BEFORE) if match else 0
    shown = "…" if start else ""
    for index in range(start, len(text)):
        character = _escape(text[index])
        rest = index + 1 < len(text)
        if len(shown) + len(character) + rest > width:
            return shown + "…"
        shown += character
    return shown


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
