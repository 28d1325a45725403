"""Finds characters that do not belong in a sentence, and cuts a short excerpt that shows them."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

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
    return found if plain or unicodedata.is_normalized("NFC", text) else [*found, "not_nfc"]


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
