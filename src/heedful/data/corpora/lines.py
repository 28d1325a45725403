"""Lines of text from files and streams: plain, .gz, .xz or a member of a .zip; UTF-8, streaming, memory constant.

Only a newline ends a line, with or without a carriage return before it. Python's `splitlines` also cuts at U+2028, form
feeds and more, which would silently shift one side of a parallel corpus against the other.
"""

import codecs
import gzip
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from heedful.errors import UserError
from heedful.files import expand_user, machine_faults, user_faults

_ZIP_MEMBER = re.compile(r"(?i)(?P<path>.*\.zip):(?P<member>.+)")
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MEMBERS_SHOWN = 10


@dataclass(frozen=True)
class TextFile:
    """The location of a text: a file, and the member of it where it is a zip archive."""

    path: Path
    member: str = ""
    hint: str = ""  # how the path came about, for the message when nothing is there

    @property
    def name(self) -> str:
        """The path as looked up, for messages."""
        return f"{self.path}:{self.member}" if self.member else str(self.path)


def locate(name: str, folder: str = "") -> TextFile:
    """Turn a name from a recipe or the command line into a location; `folder` goes before relative names."""
    found = _ZIP_MEMBER.fullmatch(name)
    path, member = (found["path"], found["member"]) if found else (name, "")
    full = expand_user(folder) / expand_user(path)
    return TextFile(full, member, _hint(Path(path), folder))


def check_exists(file: TextFile) -> None:
    """Refuse a path with nothing to read, before anything long begins."""
    with _opening(file), file.path.open("rb"):
        pass


def read_lines(file: TextFile | str | Path) -> Iterator[str]:
    """Yield the lines of a file, without their ends."""
    if not isinstance(file, TextFile):
        file = locate(str(file))
    with ExitStack() as stack:
        with _opening(file):
            stream = _open(file, stack)
        yield from decode_lines(_undamaged(stream, file), file.name)


def decode_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield the lines of a binary stream as text, each as soon as it is there; `name` is for messages."""
    before = 0  # bytes of earlier lines
    for number, raw in enumerate(stream, start=1):
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise UserError(_not_utf8(name, number, before, raw, error)) from error
        before += len(raw)
        text = text.removesuffix("\n").removesuffix("\r")
        yield text.removeprefix("\ufeff") if number == 1 else text


def _open(file: TextFile, stack: ExitStack) -> Iterable[bytes]:
    match file.path.suffix.lower():
        case ".gz":
            return stack.enter_context(gzip.open(file.path, "rb"))
        case ".xz":
            return stack.enter_context(lzma.open(file.path, "rb"))
        case ".zip":
            archive = stack.enter_context(zipfile.ZipFile(file.path))
            return stack.enter_context(archive.open(_member(archive, file)))
        case _:
            return stack.enter_context(file.path.open("rb"))


def _member(archive: zipfile.ZipFile, file: TextFile) -> str:
    members = [info.filename for info in archive.infolist() if not info.is_dir()]
    if file.member in members:
        return file.member
    if not file.member and len(members) == 1:
        return members[0]
    shown = ", ".join(members[:_MEMBERS_SHOWN]) + (", …" if len(members) > _MEMBERS_SHOWN else "")
    if not members:
        raise UserError(f"{file.path} is an empty archive.")
    if file.member:
        raise UserError(f"{file.path} has no member `{file.member}`. Its members: {shown}.")
    raise UserError(
        f"{file.path} has {len(members)} members: name one, as in `{file.path.name}:{members[0]}`. "
        f"Its members: {shown}."
    )


@contextmanager
def _opening(file: TextFile) -> Iterator[None]:
    with machine_faults(file.path), user_faults(file.path), _damage(file):
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UserError(f"{file.path}: no such file{file.hint}.") from error


def _undamaged(stream: Iterable[bytes], file: TextFile) -> Iterator[bytes]:
    with machine_faults(file.path), _damage(file):
        yield from stream


@contextmanager
def _damage(file: TextFile) -> Iterator[None]:
    """Return what the decompressors raise for a file that is cut short, damaged, or not of their format."""
    try:
        yield
    except (
        gzip.BadGzipFile,
        zipfile.BadZipFile,
        lzma.LZMAError,
        zlib.error,
        EOFError,
        NotImplementedError,  # a zip method that Python does not know
        RuntimeError,  # an encrypted zip
    ) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{file.name} cannot be unpacked ({reason}): download or copy it again.") from error


def _hint(path: Path, folder: str) -> str:
    if expand_user(path).is_absolute():
        return ""
    if not folder:
        return f" (looked up from {Path.cwd()}; `data.folder` is empty)"
    if not expand_user(folder).is_absolute():
        return f" (looked up from {Path.cwd()}; `data.folder` is `{folder}`)"
    return f" (`data.folder` is `{folder}`)"


def _not_utf8(name: str, number: int, before: int, raw: bytes, error: UnicodeDecodeError) -> str:
    where = f"{name}, line {number:,}, byte {before + error.start:,}"
    if number == 1 and raw.startswith(_UTF16_MARKS):
        return f"{where}: the text is UTF-16, but must be UTF-8: convert it with `iconv -f UTF-16 -t UTF-8`."
    return (
        f"{where}: 0x{raw[error.start]:02x} is not valid UTF-8 there. Convert the text, for example with "
        "`iconv -f ISO-8859-1 -t UTF-8` if it is Latin-1, or drop such bytes with `iconv -c -f UTF-8 -t UTF-8`."
    )
