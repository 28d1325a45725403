"""What a file that is not UTF-8 text seems to be, by its bytes: packed, or text in another encoding."""

import codecs
from collections.abc import Mapping
from typing import Final

HEAD: Final = 6  # bytes that tell what a file is packed with
_PACKED: Final[Mapping[bytes, str]] = {
    b"\x1f\x8b": ".gz",
    b"\xfd7zXZ\x00": ".xz",
    b"PK\x03\x04": ".zip",
    b"BZh": ".bz2",
    b"\x28\xb5\x2f\xfd": ".zst",
}
READABLE: Final = (".gz", ".xz", ".zip")
_WIDE_MARKS: Final[Mapping[bytes, str]] = {  # the longer marks first: one begins with another
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_ONLY_WINDOWS: Final = range(0x80, 0xA0)  # control characters in Latin-1; curly quotes, dashes and € in Windows-1252
_UNUSED: Final = frozenset(b"\x81\x8d\x8f\x90\x9d")  # bytes that are nothing in Windows-1252


def packed_as(head: bytes) -> str:
    """Return the suffix of packed files that begin like this; nothing for text."""
    return next((suffix for mark, suffix in _PACKED.items() if head.startswith(mark)), "")


def wide_encoding(raw: bytes) -> str:
    """Return the encoding of a first line with two or four bytes per character; nothing for any other line."""
    for mark, encoding in _WIDE_MARKS.items():
        if raw.startswith(mark):
            return encoding
    zeros = raw.count(0)
    if not zeros or 3 * zeros < len(raw):
        return ""
    return "UTF-16BE" if raw[0] == 0 else "UTF-16LE"  # half of the bytes of English in UTF-16 are zero


def describe_invalid(raw: bytes, error: UnicodeDecodeError) -> str:
    """Return what is wrong with a line that is not UTF-8, what it looks like, and how to convert it."""
    found = f"0x{raw[error.start]:02x} is not valid UTF-8 there"
    encoding = _one_byte_encoding(raw)
    if encoding:
        return f"{found}. The text looks like {encoding}: convert it with `iconv -f WINDOWS-1252 -t UTF-8`."
    return (
        f"{found}. Convert the text with `iconv -f ENCODING -t UTF-8` if it has another encoding, or drop such bytes "
        "with `iconv -c -f UTF-8 -t UTF-8`."
    )


def _one_byte_encoding(raw: bytes) -> str:
    """Return the name of the encoding of Western European text; nothing if a line does not look like that.

    In such text accented letters are few, and next to ordinary ones. In other encodings of one byte per character, such
    as those of Cyrillic and Greek, most letters are above 0x7f.
    """
    high = [byte for byte in raw if byte >= 0x80]
    letters = sum(chr(byte).isalpha() for byte in raw if byte < 0x80)
    if _UNUSED.intersection(high) or len(high) > max(1, letters):
        return ""
    if any(byte in _ONLY_WINDOWS for byte in high):
        return "Windows-1252"
    return "Windows-1252 or Latin-1" if letters and all(byte not in (0xFE, 0xFF) for byte in high) else ""
