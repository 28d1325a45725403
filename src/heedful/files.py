"""The one place that writes files: whole or not at all, so that a kill or a full disk never leaves half of one."""

import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from heedful.errors import MachineError, UserError

_MACHINE_FAULTS: Mapping[int, str] = {
    errno.ENOSPC: "the disk is full: free some space and run the same command again",
    errno.EDQUOT: "the disk quota is used up: free some space and run the same command again",
    errno.EACCES: "no permission to write there: choose another folder or change its permissions",
    errno.EPERM: "no permission to write there: choose another folder or change its permissions",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.EIO: "the disk reported an input/output error",
    errno.EMFILE: "too many open files: raise the limit with `ulimit -n`",
}


@contextmanager
def machine_faults(path: Path) -> Iterator[None]:
    """Turn the operating system's failures around a path into one line for the user."""
    try:
        yield
    except OSError as error:
        reason = _MACHINE_FAULTS.get(error.errno or 0)
        if reason is None:
            raise
        raise MachineError(f"{path}: {reason}.") from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file: to a neighbour first, synced, then renamed over the old one."""
    with machine_faults(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            _write_synced(staged, data)
            staged.replace(path)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def write_json(path: Path, value: object) -> None:
    """Write a value as readable JSON."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: object) -> bytes:
    """Serialise a value the way every JSON file of the project is serialised."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def append_line(path: Path, line: str) -> None:
    """Add one line to a log; a log may lose its last line in a crash, never an earlier one."""
    with machine_faults(path), path.open("a", encoding="utf-8") as log:
        log.write(line + "\n")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a staging folder that becomes `path` when the block ends, synced, and disappears when it fails."""
    with machine_faults(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        staged.mkdir()
        try:
            yield staged
            for file in staged.iterdir():
                _sync_file(file)
            _sync_folder(staged)
            if path.exists():
                shutil.rmtree(path)
            staged.rename(path)
            _sync_folder(path.parent)
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
        doomed = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        path.rename(doomed)
        shutil.rmtree(doomed)


def read_bytes(path: Path) -> bytes:
    """Read a whole file, or say which one is missing."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file.") from error
    except IsADirectoryError as error:
        raise UserError(f"{path} is a folder, but must be a file.") from error
    except PermissionError as error:
        raise MachineError(f"{path}: no permission to read it.") from error


def read_json(path: Path) -> object:
    """Read a JSON file, or say where it is damaged."""
    try:
        return json.loads(read_bytes(path))
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}): the file is damaged, restore it from a copy.") from error


def sha256_of_file(path: Path) -> str:
    """Hash a file of any size."""
    with machine_faults(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
