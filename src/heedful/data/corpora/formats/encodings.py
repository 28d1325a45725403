"""Encodings of text that is not UTF-8: UTF-16 and UTF-32 by their bytes, Windows-1252 by the letters it would have.

Encodings of one byte per character have no marks: the same byte is ę in one and ê in the next. Which one a text has is
told by how often its accented letters occur in a language. What could have several encodings is refused.
"""

import codecs
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from heedful.base.errors import UserError

WINDOWS: Final = "Windows-1252"
_MARKS: Final[Mapping[bytes, str]] = {  # the longer marks first: one begins with another
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}

# --- two or four bytes per character ----------------------------------------------------------------------------------


def wide_encoding(raw: bytes, name: str) -> str:
    """Return the encoding of a first line with two or four bytes per character; nothing for any other line.

    `name` is that of the file, which is refused if it is not text.
    """
    for mark, encoding in _MARKS.items():
        if raw.startswith(mark):
            return encoding
    zeros = raw.count(0)
    if not zeros or 3 * zeros < len(raw):
        return ""
    # Half of the bytes of English in UTF-16 are zero: the first of two, or the second, and never both.
    even, odd = raw[::2].count(0), raw[1::2].count(0)
    if min(even, odd):
        raise UserError(f"{name}: {zeros:,} of the first {len(raw):,} bytes are zero, so this is not text.")
    return "UTF-16BE" if even else "UTF-16LE"


def wide_lines(stream: Iterable[bytes], encoding: str, name: str, longest: int) -> Iterator[str]:
    """Yield the lines of a stream in a wide encoding; its parts end anywhere, and are at most `longest` bytes long."""
    decoder = codecs.getincrementaldecoder(encoding)()
    waiting, number = "", 0
    for raw in _with_end(stream):
        try:
            waiting += decoder.decode(raw or b"", final=raw is None)
        except UnicodeDecodeError as error:
            where = f"{name}, line {number + 1 + error.object[: error.start].count(10):,}"
            raise UserError(f"{where} is not valid {encoding}: convert the file to UTF-8 and correct it.") from error
        if raw is not None and len(raw) == longest:
            raise UserError(f"{name}, line {number + 1:,} is too long: convert the file to UTF-8.")
        *whole, waiting = waiting.split("\n")
        for line in whole:
            number += 1
            yield line.removeprefix("\ufeff") if number == 1 else line
    if waiting:
        yield waiting.removeprefix("\ufeff") if not number else waiting


def _with_end(stream: Iterable[bytes]) -> Iterator[bytes | None]:
    yield from stream
    yield None


# --- one byte per character -------------------------------------------------------------------------------------------

# Accented letters of languages, with about how many of a hundred accented letters each is.
_WESTERN: Final = (
    "ü36 ä32 ö18 ß13 é1",  # German
    "é62 è12 à12 ê5 ç4 î2 ô2 û1 ù1 â2 ï1 ë1 œ1 ü1 æ1",  # French
    "ó25 í23 é15 á19 ñ11 ú6 ü1",  # Spanish
    "ã21 ç17 á16 é14 í10 ê7 ó6 õ5 ú3 à2 â2 ô2 ü1",  # Portuguese
    "è41 à23 ù14 ò10 é7 ì6 í1 ó1",  # Italian
    "ë40 é30 ï15 è5 ö4 ü3 ó2 á1",  # Dutch
    "å35 ø35 æ27 é3",  # Danish and Norwegian
    "ä48 ö26 å24 é2",  # Swedish
    "ä75 ö24 å1 š1 ž1 é1",  # Finnish
    "ä30 õ30 ü25 ö10 š4 ž1",  # Estonian
    "á17 í17 ð22 ó10 þ10 é8 ö9 æ9 ú8 ý3",  # Icelandic
    "à30 é20 ó15 è15 í10 ç6 ò4 ú2 ï2 ü2",  # Catalan
)
_MIXED: Final = (" ".join(f"{letter}2" for letter in "áàâäãåæçéèêëíìîïñóòôöõøœúùûüß"),)  # several of them in one file
_OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Windows-1250": (
        "ł30 ą15 ę16 ó12 ż11 ś9 ć6 ń3 ź1",  # Polish
        "í20 á17 é12 ě12 ř9 š7 ý7 č7 ž7 ů4 ú1 ň1 ď1 ť1 ó1",  # Czech
        "á29 é26 í7 ó9 ö11 ő9 ü5 ú3 ű2",  # Hungarian
        "ă45 ş16 ţ15 â12 î12",  # Romanian
        "č30 š28 ž18 ć16 đ8",  # Croatian, Slovenian
        "á20 í14 é12 ý10 č11 š9 ž11 ú7 ľ4 ť4 ň2 ď2 ô2 ä1 ĺ1 ŕ1",  # Slovak
    ),
    "ISO-8859-2": (
        "ł30 ą15 ę16 ó12 ż11 ś9 ć6 ń3 ź1",
        "í20 á17 é12 ě12 ř9 š7 ý7 č7 ž7 ů4 ú1 ň1 ď1 ť1 ó1",
        "č30 š28 ž18 ć16 đ8",
    ),
    "Windows-1254": ("ı44 ş15 ü16 ö8 ğ10 ç9 i3 î1 â1",),  # Turkish
    "Windows-1257": (
        "ā38 ī18 ē16 š12 ū5 ņ4 ļ4 ž2 č1 ģ1 ķ1",  # Latvian
        "ė20 š18 ų18 ž12 į9 ū8 ą8 č6 ę3",  # Lithuanian
    ),
    "ISO-8859-15": _WESTERN,
    "MacRoman": _WESTERN,
    "IBM850": _WESTERN,
}
_ICONV: Final = {"MacRoman": "MACINTOSH"}
_LETTERS: Final = 0xC0  # from here on, bytes are letters in most encodings
_SIGNS: Final = frozenset("‘’‚“”„–—…€«»‹›°§©®™¿¡·•£½¼¾²³ªº´\xad\xa0")
_SIGN: Final = 0.2  # probability of one of them
_INSIDE_WORDS: Final = frozenset("’–—…·\xad\xa0-")  # signs that have letters on both sides
_CHARACTERS: Final = 100_000  # that are looked at
_STRAY: Final = 0.001  # probability of a letter that the language does not have
_NEVER: Final = frozenset("¤").union(map(chr, range(0x80, 0xA0)))  # 0xa4 is the euro sign of ISO-8859-15
_ADJACENT: Final = 0.3  # share of accented letters next to another, below which they are not a script of their own
_NEEDED: Final = 0.95  # share of the accented letters that must be in one language
_PRIOR: Final = math.log(10)  # in favour of Windows-1252, by far the most frequent of them
_MARGIN: Final = math.log(
    30
)  # by which one encoding must be more likely than all others that read the text differently
_HIGH: Final = re.compile(rb"[\x80-\xff]")


@dataclass(frozen=True)
class Guess:
    """The encoding that a text seems to have, and another that it could have."""

    encoding: str = ""
    rival: str = ""

    @property
    def way_out(self) -> str:
        """What to do about a text that is refused."""
        if not self.encoding:
            return (
                "Convert the text with `iconv -f ENCODING -t UTF-8` if it has another encoding, or drop such bytes "
                "with `iconv -c -f UTF-8 -t UTF-8`."
            )
        if not self.rival:
            return f"The text looks like {self.encoding}: convert it with {_iconv(self.encoding)}."
        return (
            f"The text could be {self.encoding} or {self.rival}: convert it with {_iconv(self.encoding)} or "
            f"{_iconv(self.rival)}."
        )


def guess_encoding(lines: Iterable[bytes]) -> Guess:
    """Return which encoding of one byte per character text has that is not UTF-8; nothing where no encoding fits.

    Text in which some lines are UTF-8, and not just by chance, is damaged: it has no other encoding.
    """
    seen: Counter[tuple[bytes, int, bytes]] = Counter()  # each byte with its neighbours
    utf8 = others = ascii_letters = 0
    for raw in lines:
        if raw.isascii():
            continue
        damaged = not is_utf8(raw)
        others, utf8 = others + damaged, utf8 + (not damaged)
        if seen.total() < _CHARACTERS:
            ascii_letters += sum(chr(byte).isalpha() for byte in raw if byte < 0x80)
            places = (found.start() for found in _HIGH.finditer(raw))
            seen.update((raw[max(0, at - 1) : at], raw[at], raw[at + 1 : at + 2]) for at in places)
    if not seen or 100 * utf8 > others or seen.total() > max(1, ascii_letters):
        return Guess()
    next_to_others = sum(
        count for (left, byte, right), count in seen.items() if min(byte, max(*left, *right, 0, 0)) >= _LETTERS
    )
    mixed = _MIXED if next_to_others < _ADJACENT * seen.total() else ()
    texts = {name: _reading(seen, name) for name in (WINDOWS, *_OTHERS)}
    scores = {name: _score(text, _OTHERS.get(name) or _WESTERN + mixed) for name, text in texts.items()}
    scores[WINDOWS] += _PRIOR
    best = max(scores, key=lambda name: scores[name])
    if scores[best] == -math.inf:
        return Guess()
    rivals = [
        name
        for name, text in texts.items()
        if text != texts[best] and scores[name] > -math.inf and scores[best] - scores[name] < _MARGIN
    ]
    return Guess(best, max(rivals, key=lambda name: scores[name], default=""))


def is_utf8(raw: bytes) -> bool:
    """Whether a line that has more than ASCII is valid UTF-8."""
    try:
        return not raw.decode().isascii()
    except UnicodeDecodeError:
        return False


_Reading = Mapping[str, int] | None  # letters and signs, and how often each occurs; a blank is what is misplaced


def _reading(seen: Counter[tuple[bytes, int, bytes]], encoding: str) -> _Reading:
    """Return the letters that bytes are in an encoding; None if some are nothing in it."""
    read: Counter[str] = Counter()
    for (before, byte, after), count in seen.items():
        try:
            left, letter, right = (bytes([one]).decode(encoding) for one in (*(before or b" "), byte, *(after or b" ")))
        except UnicodeDecodeError:
            return None
        if letter in _NEVER:
            return None
        misplaced = left.islower() if letter.isupper() else left.isalpha() and right.isalpha()
        if letter in _SIGNS or not letter.isalpha():
            read[" " if misplaced and letter not in _INSIDE_WORDS else letter] += count
        else:
            read[" " if letter.isupper() and misplaced else letter.lower()[0]] += count
    return read


def _score(text: _Reading, languages: Iterable[str]) -> float:
    """Return the log likelihood of the accented letters in the language that fits best; -inf where none fits."""
    if text is None:
        return -math.inf
    total, best = sum(text.values()), -math.inf
    for language in languages:
        weights = {entry[0]: int(entry[1:]) / 100 for entry in language.split()} | dict.fromkeys(_SIGNS, _SIGN)
        if sum(count for letter, count in text.items() if letter in weights) >= _NEEDED * total:
            best = max(best, sum(count * math.log(weights.get(letter, _STRAY)) for letter, count in text.items()))
    return best


def _iconv(encoding: str) -> str:
    return f"`iconv -f {_ICONV.get(encoding, encoding.upper())} -t UTF-8`"
