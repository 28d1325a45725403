"""Lines of text from files and streams: plain, .gz, .xz or a member of a .zip; UTF-8, streaming, memory constant.

Only a newline ends a line, with or without a carriage return before it. Python's `splitlines` also cuts at U+2028, form
feeds and more, which would silently shift one side of a parallel corpus against the other.
"""

import errno
import gzip
import io
import lzma
import os
import re
import stat
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final, TypeVar, cast

from heedful.base.errors import UserError, machine_faults, user_faults
from heedful.base.files import expand_user
from heedful.base.notes import note
from heedful.data.corpora.formats.encodings import WINDOWS, Guess, guess_encoding, is_utf8, wide_encoding, wide_lines
from heedful.data.corpora.formats.file_kinds import HEAD, READABLE, describe_archive, describe_foreign, packed_as
from heedful.data.zip_files import open_zip

Item = TypeVar("Item")
_ZIP_MEMBER = re.compile(r"(?i)(?P<path>.*\.zip):(?P<member>.+)")
_MEMBERS_SHOWN = 10
_READ: Final = 1 << 20  # bytes that are unpacked at once
_RATIO: Final = 100  # how many times its size a packed text may be: usual ones are 3 to 10,
_SMALL: Final = 1 << 22  # and few bytes may be packed as well as they like
FIRST_LINES: Final = 1000  # that tell what a file is,
_CHARACTERS: Final = 1 << 20  # and not more than these
LONGEST: Final = 1 << 24  # bytes of a line that are read: the rest of a longer one is skipped, to bound memory


DAMAGE: Final = (  # what decompressors raise
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    NotImplementedError,  # a zip method that Python does not know
    RuntimeError,  # an encrypted zip
    ValueError,  # numbers in a zip that lead outside of it: this, and the next ones
    OverflowError,
    struct.error,
)


@dataclass
class Passed:
    """How many lines from the start of a file nobody needs: they are not yielded. It may grow while a file is read."""

    lines: int = 0

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield all items but the first ones, of what cannot be passed over any faster."""
        return (item for number, item in enumerate(items, start=1) if number > self.lines)


@dataclass(frozen=True)
class TextFile:
    """The location of a text: a file, and the member of it where it is a zip archive."""

    path: Path
    member: str = ""
    hint: str = ""  # how the path came about, for the message when nothing is there
    stream: bool = False  # whether it may be a pipe or a terminal: it is read once, as it arrives

    @property
    def name(self) -> str:
        """The path as looked up, for messages."""
        return f"{self.path}:{self.member}" if self.member else str(self.path)


def locate(name: str, folder: str = "") -> TextFile:
    """Turn a name from a recipe or the command line into a location; `folder` goes before relative names."""
    path, member = split_member(name)
    full = expand_user(folder) / expand_user(path)
    return TextFile(full, member, _hint(Path(path), folder))


def split_member(name: str) -> tuple[str, str]:
    """Split the name of an archive from that of its member, which may be empty."""
    found = _ZIP_MEMBER.fullmatch(name)
    return (found["path"], found["member"]) if found else (name, "")


def check_exists(file: TextFile) -> None:
    """Refuse a path with nothing to read, before anything long begins."""
    with _opening(file):
        if _check_kind(file):
            file.path.open("rb").close()


def check_folder(folder: TextFile) -> None:
    """Refuse a path that is not a folder."""
    if not folder.path.exists():
        raise UserError(f"{folder.path}: no such folder{folder.hint}.")
    if not folder.path.is_dir():
        raise UserError(f"{folder.path}: this is a file, but must be a folder.")


def _check_kind(file: TextFile) -> bool:
    """Refuse devices, which never end, and pipes that would be read twice; return whether it is an ordinary file."""
    mode = os.stat(file.path).st_mode  # noqa: PTH116 - one call, and the error that `open` gives for a NUL
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return True
    terminal_or_null = stat.S_ISCHR(mode) and (file.path == Path(os.devnull) or _is_terminal(file.path))
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not terminal_or_null):
        raise UserError(f"{file.path}: this is a device, but must be a file.")
    if not file.stream:
        raise UserError(f"{file.path}: this is a pipe or a terminal, but must be a file, as it is read more than once.")
    return False


def _is_terminal(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        return os.isatty(descriptor)
    finally:
        os.close(descriptor)


def read_lines(
    file: TextFile | str | Path, longest: int | None = None, passed: Passed | None = None
) -> Generator[str, None, None]:
    """Yield the lines of a file, without their ends; of a line longer than `longest`, its first bytes."""
    longest = longest or LONGEST
    if not isinstance(file, TextFile):
        file = locate(str(file))
    with ExitStack() as stack:
        with _opening(file):
            _check_kind(file)
            stream = _open(file, stack)
        again = (lambda: _raw_lines(file)) if file.path.is_file() else None
        yield from decode_lines(_undamaged(stream, file, longest), file.name, again, longest, passed)


def count_lines(file: TextFile) -> int:
    """Return the number of lines of a file, whatever they hold: many times as fast as reading them."""
    lines, last = 0, b"\n"
    for part in read_parts(file, _READ):
        if not lines and last == b"\n" and wide_encoding(part[: part.find(b"\n") + 1 or len(part)], file.name):
            return sum(1 for _ in read_lines(file))  # a byte of a line break may be one of another character
        lines, last = lines + part.count(b"\n"), part
    return lines + (not last.endswith(b"\n"))


def read_whole(file: TextFile) -> str:
    """Return all lines of a file whose format takes it as a whole, such as JSON, which may be on one line."""
    return "\n".join(read_lines(file, sys.maxsize))


def first_lines(file: TextFile) -> list[str]:
    """Return the first lines of a file, as many as tell what it is."""
    found, letters = [], 0
    with closing(read_lines(file)) as lines:
        for line in lines:
            found.append(line)
            letters += len(line)
            if len(found) == FIRST_LINES or letters > _CHARACTERS:
                break
    return found


def read_parts(file: TextFile, size: int) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked, in parts of this size."""
    with ExitStack() as stack:
        with _opening(file):
            _check_kind(file)
            stream = _open(file, stack)
        with machine_faults(file.path), _damage(file):
            while part := stream.read(size):
                yield part


def read_start(file: TextFile, size: int) -> tuple[bytes, bool]:
    """Return the first bytes of a file, unpacked, and whether there are more."""
    with ExitStack() as stack, _opening(file):
        _check_kind(file)
        start = _open(file, stack).read(size + 1)
    return start[:size], len(start) > size


def _raw_lines(file: TextFile) -> Iterator[bytes]:
    with ExitStack() as stack:
        with _opening(file):
            stream = _open(file, stack)
        yield from _undamaged(stream, file, LONGEST)


def decode_lines(
    stream: Iterable[bytes],
    name: str,
    again: Callable[[], Iterable[bytes]] | None = None,
    longest: int | None = None,
    passed: Passed | None = None,
) -> Iterator[str]:
    """Yield the lines of a binary stream as text, each as soon as it is there; `name` is for messages.

    Text is UTF-8, or of another encoding that is told by its bytes: a note names it. `again` reads the stream from its
    start once more, to look at all of its bytes; of a stream that can be read only once a line must do. What is passed
    over is decoded all the same, as the encoding of a line may follow from the lines before it.
    """
    parts, longest, passed = iter(stream), longest or LONGEST, passed or Passed()
    first = next(parts, b"")
    if foreign := describe_foreign(first[:HEAD], Path(name).name):
        raise UserError(f"{name}: {foreign}")
    if wide := wide_encoding(first, name):
        note(f"{name}: read as {wide}")
        for line in passed.over(wide_lines(chain([first], parts), wide, name, longest)):
            yield line.removesuffix("\r")
        return
    encoding, before, plain = "utf-8", 0, True  # bytes of earlier lines, and whether all of them were ASCII
    for number, raw in enumerate(chain([first], parts) if first else (), start=1):
        try:
            text = raw.decode(encoding, "ignore" if len(raw) == longest else "strict")  # cut inside a character
        except UnicodeDecodeError as error:
            guess = guess_encoding(again() if again else [raw]) if plain and encoding == "utf-8" else Guess()
            if guess != Guess(WINDOWS):
                where = f"{name}, line {number:,}, byte {before + error.start:,}"
                named = "UTF-8" if encoding == "utf-8" else encoding
                found = f"0x{raw[error.start]:02x} is not valid {named} there"
                raise UserError(f"{where}: {found}. {guess.way_out}") from error
            note(f"{name}: read as {WINDOWS}")
            encoding, text = WINDOWS, raw.decode(WINDOWS)
        else:
            if encoding == WINDOWS and again is None and is_utf8(raw):  # where the bytes after a line were not seen yet
                raise UserError(
                    f"{name}, line {number:,} is UTF-8, but an earlier line is {WINDOWS}: convert both to UTF-8."
                )
        plain = plain and raw.isascii()
        before += len(raw)
        if number <= passed.lines:
            continue
        text = text.removesuffix("\n").removesuffix("\r")
        yield text.removeprefix("\ufeff") if number == 1 else text


def _open(file: TextFile, stack: ExitStack) -> IO[bytes]:
    match file.path.suffix.lower():
        case ".gz":
            _refuse_other_content(file)
            return _unpacked(cast("IO[bytes]", stack.enter_context(gzip.open(file.path, "rb"))), file)
        case ".xz":
            _refuse_other_content(file)
            return _unpacked(stack.enter_context(lzma.open(file.path, "rb")), file)
        case ".zip":
            _refuse_other_content(file)
            archive = stack.enter_context(open_zip(file.path))
            return _unpacked(stack.enter_context(archive.open(_member(archive, file))), file)
        case _:
            plain = stack.enter_context(file.path.open("rb"))
            packed = packed_as(plain.peek(HEAD)) if isinstance(plain, io.BufferedReader) else ""
            if packed == ".zip" and (foreign := describe_archive(file.path)):
                raise UserError(f"{file.path}: {foreign}")
            if packed:
                way_out = f"rename it to end in {packed}" if packed in READABLE else "unpack it first"
                raise UserError(f"{file.path} is packed ({packed}), but its name does not say so: {way_out}.")
            return plain


class _Unpacked(io.RawIOBase):
    """What a packed file holds, as far as a text can be packed: a few kilobytes may unpack to gigabytes."""

    def __init__(self, stream: IO[bytes], file: TextFile) -> None:
        self._stream, self._file = cast("io.BufferedReader", stream), file
        self._left = max(_SMALL, _RATIO * file.path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read1(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise UserError(
                f"{self._file.name} unpacks to more than {_RATIO} times its size, which is unlikely for a text: if it "
                "is right, unpack it, and name the unpacked file."
            )
        buffer[: len(data)] = data
        return len(data)


def _unpacked(stream: IO[bytes], file: TextFile) -> IO[bytes]:
    return io.BufferedReader(_Unpacked(stream, file), _READ)  # whose lines are fast, and limited exactly


def _refuse_other_content(file: TextFile) -> None:
    """Refuse a file whose name says that it is packed, and whose first bytes say that it is not."""
    if not file.path.is_file():
        return
    with file.path.open("rb") as opened:
        head = opened.read(HEAD)
    suffix, packed = file.path.suffix.lower(), packed_as(head)
    if head and packed != suffix and not (suffix == ".zip" and head.startswith(b"PK")):
        really = f"packed as {packed}" if packed else "not packed"
        raise UserError(f"{file.path} is {really}, but its name ends in {file.path.suffix}: rename it.")


def _member(archive: zipfile.ZipFile, file: TextFile) -> str:
    members = [name for name in archive.namelist() if name and not name.endswith("/")]  # a damaged name may be empty
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


def _undamaged(stream: IO[bytes], file: TextFile, longest: int) -> Iterator[bytes]:
    """Yield the lines of a file; of one that is longer than memory should hold, its beginning."""
    with machine_faults(file.path), _damage(file):
        yield from bounded_lines(stream, longest)


def bounded_lines(stream: IO[bytes], longest: int | None = None) -> Iterator[bytes]:
    """Yield the lines of a binary stream; of one that is longer than memory should hold, its beginning."""
    longest = longest or LONGEST
    while line := stream.readline(longest):
        yield line
        while len(line) == longest and not line.endswith(b"\n"):
            line = stream.readline(longest)


@contextmanager
def _damage(file: TextFile) -> Iterator[None]:
    """Return what the decompressors raise for a file that is cut short, damaged, or not of their format."""
    try:
        yield
    except DAMAGE as error:
        raise _not_unpacked(file, error) from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise _not_unpacked(file, error) from error


def _not_unpacked(file: TextFile, error: Exception) -> UserError:
    reason = " ".join(str(error).split())
    return UserError(f"{file.name} cannot be unpacked ({reason}): download or copy it again.")


def _hint(path: Path, folder: str) -> str:
    if expand_user(path).is_absolute():
        return ""
    if not folder:
        return f" (looked up from {Path.cwd()}; `data.folder` is empty: set it to the folder of the files)"
    if not expand_user(folder).is_absolute():
        return f" (looked up from {Path.cwd()}; `data.folder` is `{folder}`)"
    return f" (`data.folder` is `{folder}`)"
