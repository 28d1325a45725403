"""What a file is by its first bytes, where it is not text: packed, an image, or a document of another program."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from heedful.data.zip_files import open_zip

HEAD: Final = 8  # bytes that tell what a file is
READABLE: Final = (".gz", ".xz", ".zip")  # what is unpacked while it is read
_PACKED: Final[Mapping[bytes, str]] = {
    b"\x1f\x8b": ".gz",
    b"\xfd7zXZ\x00": ".xz",
    b"PK\x03\x04": ".zip",
    b"BZh": ".bz2",
    b"\x28\xb5\x2f\xfd": ".zst",
}
_IMAGES: Final[Mapping[bytes, str]] = {b"\x89PNG": "PNG", b"\xff\xd8\xff": "JPEG"}
_DOCUMENTS: Final[Mapping[bytes, tuple[str, str]]] = {  # what it is, and the way out
    b"%PDF-": ("a PDF", "save its text as a plain text file"),
    b"{\\rtf": ("an RTF document", "save it as plain text (.txt, UTF-8)"),
    b"PAR1": ("a Parquet file", 'write it as JSON lines, as `pandas.read_parquet("FILE").to_json(...)` does'),
    b"\xd0\xcf\x11\xe0": ("a document of an old version of Office", "save it as CSV (UTF-8), or as plain text"),
    b"SQLite f": ("an SQLite database", "export the table as CSV"),
}
_IN_ZIP: Final[Mapping[str, tuple[str, str]]] = {  # the first part of a member's name that only such a file has
    "xl/": ("an Excel workbook", "save the sheet as CSV (UTF-8)"),
    "word/": ("a Word document", "save it as plain text (.txt, UTF-8)"),
    "ppt/": ("a PowerPoint presentation", "save its text as a plain text file"),
    "content.xml": ("an OpenDocument file", "save it as CSV (UTF-8), or as plain text"),
}


def packed_as(head: bytes) -> str:
    """Return the suffix of packed files that begin like this; nothing for others."""
    return next((suffix for mark, suffix in _PACKED.items() if head.startswith(mark)), "")


def describe_foreign(head: bytes, name: str) -> str:
    """Return why content that begins like this cannot be read as text, and the way out; nothing for text."""
    for mark, image in _IMAGES.items():
        if head.startswith(mark):
            return f"this is an image ({image}), but must be text."
    return next(
        (_refusal(*document, name) for mark, document in _DOCUMENTS.items() if head.startswith(mark)),
        "",
    )


def describe_archive(path: Path) -> str:
    """Return why a file with the form of a .zip cannot be read, if it is a document of Office; nothing otherwise."""
    try:
        with open_zip(path) as archive:
            members = archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile):
        return ""
    for start, document in _IN_ZIP.items():
        if any(member.startswith(start) for member in members):
            return _refusal(*document, path.name)
    return ""


def _refusal(kind: str, way_out: str, name: str) -> str:
    return f"this is {kind}, but must be text: {way_out.replace('FILE', name)}."
