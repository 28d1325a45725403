"""The one place that writes files: whole or not at all, so that a kill or a full disk never leaves half of one."""

import errno
import hashlib
import io
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from heedful.errors import MachineError, UserError

_AGAIN: Final = "free some space and run the same command again (a training with --resume)"
_MACHINE_FAULTS: Mapping[int, str] = {
    errno.ENOSPC: f"the disk is full: {_AGAIN}",
    errno.EDQUOT: f"the disk quota is used up: {_AGAIN}",
    errno.EACCES: "no permission: choose another place or change its permissions",
    errno.EPERM: "no permission: choose another place or change its permissions",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.EIO: "the disk reported an input/output error",
    errno.EMFILE: "too many open files: raise the limit with `ulimit -n`",
}
READING_FAULTS: Mapping[int, str] = {
    errno.ENOENT: "no such file",
    errno.EISDIR: "this is a folder, but must be a file",
    errno.ENOTDIR: "a file stands where a folder must be",
    errno.EEXIST: "a file stands where a folder must be",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "its links lead in a circle",
}
WRITING_FAULTS: Mapping[int, str] = {
    **READING_FAULTS,
    errno.ENOENT: "cannot be written: there is no such folder, choose another",
}
_READER_GONE: Final = (errno.EPIPE, errno.EIO)  # a pipe's other end was closed; a terminal was hung up


@contextmanager
def machine_faults(path: Path) -> Iterator[None]:
    """Turn the machine's failures around a path into one line for the user."""
    try:
        yield
    except OSError as error:
        fault = machine_error(error, path)
        if fault is None:
            raise
        raise fault from error


def machine_error(error: OSError, path: Path) -> MachineError | None:
    """Say an operating system's error in one line where it is the machine's fault."""
    reason = _MACHINE_FAULTS.get(error.errno or 0)
    return MachineError(f"{path}: {reason}.") if reason else None


@contextmanager
def user_faults(path: Path, faults: Mapping[int, str] = READING_FAULTS) -> Iterator[None]:
    """Turn what can be wrong with a path that the user gave into one line."""
    try:
        yield
    except OSError as error:
        reason = faults.get(error.errno or 0)
        if reason is None:
            raise
        raise UserError(f"{path}: {reason}.") from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file: to a neighbour first, synced, then renamed over the old one."""
    with machine_faults(path), user_faults(path, WRITING_FAULTS):
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = _hidden_neighbour(path)
        try:
            _write_synced(staged, data)
            staged.replace(path)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
        _sync(path.parent)


def write_json(path: Path, value: object) -> None:
    """Write a value as readable JSON."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: object) -> bytes:
    """Serialise a value the way every JSON file of the project is serialised."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def append_line(path: Path, line: str) -> None:
    """Add one line to a log; a log may lose its last line in a crash, never an earlier one."""
    with machine_faults(path), user_faults(path, WRITING_FAULTS), path.open("ab+") as log:
        torn = log.tell() > 0 and log.seek(-1, os.SEEK_END) >= 0 and log.read(1) != b"\n"
        log.write(f"{chr(10) if torn else ''}{line}\n".encode())


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a staging folder that becomes `path` when the block ends, synced, and disappears when it fails."""
    if path.is_file():
        raise UserError(f"{path}: this is a file, but must be a folder.")
    with machine_faults(path):
        staged = _hidden_neighbour(path)
        with user_faults(path, WRITING_FAULTS):
            staged.mkdir(parents=True)
        try:
            yield staged
            for item in (*staged.rglob("*"), staged):
                _sync(item)
            _exchange(path, staged)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files that appears whole or not at all."""
    with new_folder(path) as staged:
        for name, data in files.items():
            (staged / name).write_bytes(data)


def remove_folder(path: Path) -> None:
    """Remove a folder; renamed first, so that a half-removed one is never taken for a whole one."""
    with machine_faults(path):
        shutil.rmtree(path.rename(_hidden_neighbour(path)))


def read_bytes(path: Path) -> bytes:
    """Read a whole file, or say which one is missing."""
    with machine_faults(path), user_faults(path):
        return path.read_bytes()


def read_json(path: Path) -> object:
    """Read a JSON file, or say where it is damaged."""
    data = read_bytes(path)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON ({error}): the file is damaged, restore it from a copy.") from error


def sha256_of_file(path: Path) -> str:
    """Hash a file of any size."""
    with machine_faults(path), user_faults(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def reader_optional(stream: TextIO | None) -> TextIO:
    """A stream to where this one leads, that quietly writes to nowhere once nobody reads there any more.

    A standard stream that was closed before Python started is None. One that is no file is left as it is.
    """
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):  # a notebook's, which may lead elsewhere than its file number
        return stream
    try:
        file = _ReaderOptional(stream.fileno(), "w", closefd=False)
    except io.UnsupportedOperation:  # in memory
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(file), encoding=stream.encoding, errors=stream.errors, line_buffering=True
    )


class _ReaderOptional(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _READER_GONE:
                raise
            return len(data)


def leftovers(folder: Path) -> list[Path]:
    """What writers that were killed left in a folder."""
    return [path for path in folder.glob(".*.*") if re.fullmatch(r"\..+\.[0-9a-f]{32}", path.name)]


def _hidden_neighbour(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}")


def _exchange(path: Path, staged: Path) -> None:
    """Rename a finished folder over an old one, which is put back when that fails and removed when it is done."""
    old = path.rename(_hidden_neighbour(path)) if path.exists() else None
    try:
        staged.rename(path)
    except BaseException:
        if old:
            old.rename(path)
        raise
    _sync(path.parent)
    if old:
        shutil.rmtree(old, ignore_errors=True)  # the new one is in place: garbage is no failure


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def refuse_file_in_the_way(folder: Path) -> None:
    """Refuse a folder that cannot be made because a file stands there."""
    standing = next(place for place in (folder, *folder.parents) if place.exists())
    if not standing.is_dir():
        raise UserError(f"{standing}: a file stands where a folder must be: choose another --out.")


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can hold it: not so half of a surrogate pair, which Python makes of bytes that are not UTF-8."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
