"""Reads and writes files: whole or not at all, even if the process is killed or the disk is full."""

import ctypes
import errno
import hashlib
import io
import json
import os
import re
import shutil
import stat
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TextIO

from heedful.base.errors import WRITING_FAULTS, UserError, by_caller, machine_faults, user_faults

_DEVICE_FOLDERS: Final = (("/", "dev"), ("/", "proc"))
_EXCHANGE: Final = 2  # RENAME_EXCHANGE of Linux's renameat2, RENAME_SWAP of macOS's renamex_np
_READER_GONE: Final = (errno.EPIPE, errno.EIO)  # the other end of a pipe was closed; a terminal hung up
_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_CURRENT_FOLDER: Final = -100  # AT_FDCWD of Linux
_MEMORY: Final = ("/", "dev", "shm")  # a folder of files like any other, which a computer keeps in its memory


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file: see `writing`."""
    with writing(path) as write:
        write(data)


@contextmanager
def writing(path: Path) -> Iterator[Callable[[bytes], None]]:
    """Give a function that adds to a file: a temporary one next to it, synced and renamed at the end of the block.

    If the block fails, the old file stays. A symbolic link stays a link: the file that it points to is replaced. The
    permissions of an existing file are kept; a device or a pipe is never replaced, the data is written to it.
    """

    def added(data: bytes) -> None:
        with machine_faults(path):
            file.write(data)

    with machine_faults(path), user_faults(path, WRITING_FAULTS):
        make_folder(path.parent)
        before = _status(path)
        replaced = before is None or _is_replaceable(path, before)
        target = path.resolve() if path.is_symlink() else path
        staged = _temporary_path(target)
        file = staged.open("xb") if replaced else path.open("ab")  # not "wb": others may write to standard output too
    try:
        yield added
        with machine_faults(path), file:
            file.flush()
            if replaced:
                os.fsync(file.fileno())
        if replaced:
            with machine_faults(path), user_faults(path, WRITING_FAULTS):
                if before is not None and staged.stat().st_mode != before.st_mode:  # not all file systems can change it
                    staged.chmod(stat.S_IMODE(before.st_mode))
                staged.replace(target)
                sync(target.parent)
    except BaseException:
        with suppress(OSError):  # closing writes what is buffered: it fails again on a full disk
            file.close()
        if replaced:
            staged.unlink(missing_ok=True)
        raise


def write_new(path: Path, data: bytes) -> bool:
    """Write a whole file unless there is one; return whether it was written. Of several writers at once one does."""
    staged = _temporary_path(path)
    write_bytes(staged, data)
    try:
        with machine_faults(path):
            try:
                os.link(staged, path)  # unlike a rename, it fails where the name is taken
            except FileExistsError:
                return False
            except OSError:  # a file system without links: there the last writer is first; other faults come again
                if path.exists():
                    return False
                staged.replace(path)
            sync(path.parent)
    finally:
        staged.unlink(missing_ok=True)
    return True


def make_folder(path: Path) -> None:
    """Create a folder, and its parents, if it is not there; the names of new ones are synced, as power may be lost."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in new:
        with suppress(PermissionError):  # a folder in which one may create, but not list
            sync(folder.parent)


def output_folder(path: str | Path, option: str = "--out") -> Path:
    """Return a folder that the user named for results; refuse names that no folder can have, and files in its way."""
    if not str(path):
        raise UserError(f"{by_caller(option, '`out`')} is empty: name a folder.")
    folder = expand_user(path)
    with machine_faults(folder), user_faults(folder):
        refuse_file_in_the_way(folder, option)
        _status(folder)
    return folder


def expand_user(path: str | Path) -> Path:
    """Return a path that a user wrote, with `~` and `~name` replaced by home folders."""
    if "\0" in str(path):
        raise UserError(f"{str(path)!a}: the name has a NUL character: choose another.")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        name = Path(path).parts[0]
        raise UserError(f"{path}: there is no home folder {name}: write the path of the folder instead.") from error


def _status(path: Path) -> os.stat_result | None:
    """Return the status of a file, or of the file that a link points to; None if there is none."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _is_replaceable(path: Path, status: os.stat_result) -> bool:
    """Whether a file can be replaced by a new one: it is a regular file, and not one that a device name leads to."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    of_device = path.parts[:2] in _DEVICE_FOLDERS and path.parts[:3] != _MEMORY
    return stat.S_ISREG(status.st_mode) and not of_device


def write_json(path: Path, value: object) -> None:
    """Write a value as readable JSON."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: object) -> bytes:
    """Serialise a value in the format of all JSON files of the project."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def append_line(path: Path, line: str) -> None:
    """Append one line to a log; a crash or a full disk may lose the last line, but never an earlier one."""
    with machine_faults(path), user_faults(path, WRITING_FAULTS), path.open("ab+") as log:
        torn = log.tell() > 0 and log.seek(-1, os.SEEK_END) >= 0 and log.read(1) != b"\n"
        log.write(f"{chr(10) if torn else ''}{line}\n".encode())


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a staging folder that is synced and renamed to `path` when the block ends, or removed when it fails."""
    if path.is_file():
        raise UserError(f"{path}: this is a file, but must be a folder.")
    if path.is_symlink() and path.is_dir():
        path = path.resolve()  # the folder that the link points to is replaced, and the link stays
    with machine_faults(path):
        staged = _temporary_path(path)
        with user_faults(path, WRITING_FAULTS):
            make_folder(path.parent)
            staged.mkdir()
        try:
            yield staged
            for item in (*staged.rglob("*"), staged):
                sync(item)
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
    """Remove a folder; it is renamed first, so that a half-removed folder is never mistaken for a whole one.

    The new name is synced: a disk that loses its power may have removed files before it has renamed their folder. Of a
    symbolic link the link is removed, and what it points to stays.
    """
    with machine_faults(path):
        if path.is_symlink():
            path.unlink()
        else:
            removed = path.rename(_temporary_path(path))
            sync(path.parent)
            shutil.rmtree(removed)


def read_bytes(path: Path) -> bytes:
    """Read a whole file, or raise a UserError if it is missing or not a file: a pipe waits, and a device never ends."""
    with machine_faults(path), user_faults(path):
        refuse_special_file(path)
        return path.read_bytes()


def refuse_special_file(path: Path) -> None:
    """Refuse pipes, devices and sockets; raise the OS error of a path where there is nothing."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise UserError(f"{path}: this is a pipe or a device, but must be a file.")


def read_json(path: Path) -> object:
    """Read a JSON file, or raise a UserError that says where it is damaged."""
    data = read_bytes(path)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON ({error}): the file is damaged, restore it from a copy.") from error


@contextmanager
def damaged(path: Path, way_out: str) -> Iterator[None]:
    """Turn what goes wrong while values of a file are used that Heedful wrote itself into a UserError of one line.

    Only for values that nothing checks one by one: of a sound file, any of these errors is a bug.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UserError(f"{path} is damaged ({reason}): {way_out}.") from error


def sha256_of_file(path: Path) -> str:
    """Hash a file of any size."""
    with machine_faults(path), user_faults(path):
        refuse_special_file(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def tolerate_closed_reader(stream: TextIO | None, full_disk: bool = False) -> TextIO:
    """Return a stream with the same destination that silently discards output once its reader is gone.

    With `full_disk`, output is discarded as well while the disk is full that it goes to. A standard stream that was
    closed before Python started is None. A stream that is not a file is returned as it is.
    """
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):  # in a notebook: its file descriptor may not be where it writes
        return stream
    try:
        file = _ToleratesClosedReader(stream.fileno(), "w", closefd=False)
        file.tolerated = (*_READER_GONE, *(_DISK_FULL if full_disk else ()))
    except io.UnsupportedOperation:  # in memory
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(file), encoding=stream.encoding, errors=stream.errors, line_buffering=True
    )


class _ToleratesClosedReader(io.FileIO):
    tolerated: tuple[int, ...] = _READER_GONE

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in self.tolerated:
                raise
            return len(data)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders that killed processes left in a folder."""
    for path in folder.glob(".*.*"):
        if not re.fullmatch(r"\..+\.[0-9a-f]{32}", path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _temporary_path(path: Path) -> Path:
    name = os.fsencode(path.name)[:200].decode(errors="ignore")  # a long name has no room for more
    return path.with_name(f".{name}.{uuid.uuid4().hex}")


def _exchange(path: Path, staged: Path) -> None:
    """Put a finished folder in the place of an old one, which is removed.

    Where the system can swap two names, there is a folder under this name at every moment. Elsewhere a reader may find
    none for an instant, and the old folder is restored if the second rename fails.
    """
    old: Path | None = None
    if path.exists() and _swap(staged, path):
        old = staged
    else:
        old = path.rename(_temporary_path(path)) if path.exists() else None
        try:
            staged.rename(path)
        except BaseException:
            if old:
                old.rename(path)
            raise
    sync(path.parent)
    if old:
        shutil.rmtree(old, ignore_errors=True)  # the new one is in place: leftovers are not a failure


def _swap(first: Path, second: Path) -> bool:
    """Exchange two names at once; return False where the system or the file system cannot do that."""
    names = os.fsencode(first), os.fsencode(second)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            failed = library.renamex_np(*names, ctypes.c_uint(_EXCHANGE))
        else:
            here = ctypes.c_int(_CURRENT_FOLDER)
            failed = library.renameat2(here, names[0], here, names[1], ctypes.c_uint(_EXCHANGE))
    except (AttributeError, OSError, TypeError):  # a system without this function
        return False
    return not failed  # whatever the reason, renaming twice fails with the same one


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's names, are on the disk: before that, a loss of power may undo them."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe is refused below instead of waited for
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def refuse_file_in_the_way(folder: Path, option: str = "--out") -> None:
    """Refuse a folder that cannot be created because a file is in the way."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir():
        another = by_caller(option, "folder")
        raise UserError(f"{existing}: a file exists where a folder must be: choose another {another}.")


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded as UTF-8: lone surrogates, which Python makes of invalid bytes, cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
