"""The cache of prepared data: each entry is built once, whole or not at all, however many processes ask for it.

Entries can be listed, and removed unless a process is using them.

An entry is a folder of files, and of their hashes, which are checked whenever it is loaded: a changed byte would train
another model without a word. Hashing is fast beside everything that is done with the data. Whose entries are used:
`cache_trust.py`.
"""

import hashlib
import json
import os
import shutil
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

try:
    import fcntl
except ImportError:  # not on this system: nothing tells that an entry is in use
    fcntl = None  # type: ignore[assignment]

from filelock import FileLock, Timeout

from heedful.base.errors import WRITING_FAULTS, MachineError, UserError, machine_faults, user_faults
from heedful.base.files import expand_user, json_bytes, new_folder, read_json, remove_folder, sha256_of_file
from heedful.data.cache_trust import create_private, root_for_this_user, stranger_of

HASHES: Final = "sha256.json"  # of the other files of an entry, by name

Entry = TypeVar("Entry")
Say = Callable[[str], None]


def cache_folder() -> Path:
    """Return `$HEEDFUL_CACHE`, or `heedful` in `$XDG_CACHE_HOME` or `~/.cache`.

    If that is a folder of another user which several can write to, it is this user's own folder in it.
    """
    return root_for_this_user(_named_or_usual())


def _named_or_usual() -> Path:
    if chosen := os.environ.get("HEEDFUL_CACHE"):
        return expand_user(chosen)
    return expand_user(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "heedful"


def create_folder(folder: Path) -> None:
    """Create a folder of the cache, private unless the cache is not."""
    create_private(folder, cache_folder())


def key_of(value: object) -> str:
    """Return the sha256 of a JSON value: of everything that decides an entry's content."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def cached(folder: Path, load: Callable[[Path], Entry | None], build: Callable[[Path], None], progress: Say) -> Entry:
    """Load the entry in this folder; where there is none or a damaged one, `build` it in a staging folder."""
    with _elsewhere():
        if (entry := _found(folder, load)) is not None:
            return entry
    with _lock(folder, progress):
        if (entry := _found(folder, load)) is not None:  # another process has built it in the meantime
            return entry
        if (folder / HASHES).exists():
            progress(f"{folder} {_fault(folder) or 'is damaged'}: preparing it again")
        for leftover in folder.parent.glob(f".{folder.name}.*"):  # of builders that were killed: the lock is ours
            shutil.rmtree(leftover, ignore_errors=True)
        with new_folder(folder) as staged:
            build(staged)
            hashes = {path.name: sha256_of_file(path) for path in sorted(staged.iterdir())}
            (staged / HASHES).write_bytes(json_bytes(hashes))
    entry = load(folder)
    assert entry is not None, f"{folder} was built and cannot be loaded"
    _mark_used(folder, entry)
    return entry


def _found(folder: Path, load: Callable[[Path], Entry | None]) -> Entry | None:
    """Load an entry of a user to trust whose files have the hashes that are stated in it, all of them."""
    with machine_faults(folder):
        if not folder.is_dir() or _fault(folder):
            return None
    entry = load(folder)
    if entry is not None:
        _mark_used(folder, entry)
    return entry


def _fault(folder: Path) -> str | None:
    """Return why an entry is not to be used; None if it is sound. An earlier version stated no hashes."""
    try:
        stranger = stranger_of(folder, cache_folder(), named=bool(os.environ.get("HEEDFUL_CACHE")))
        if stranger is not None:
            return f"belongs to another user ({stranger})"
        stated = read_json(folder / HASHES)
        files = [file for file in folder.iterdir() if file.name != HASHES and not file.name.startswith(".")]
        sound = (
            isinstance(stated, dict)
            and bool(files)
            and stated.keys() == {file.name for file in files}
            # Pipes never end, and what a link points to can change at any time.
            and all(file.is_file() and not file.is_symlink() for file in files)
            and all(sha256_of_file(file) == stated[file.name] for file in files)
        )
    except (UserError, FileNotFoundError):  # missing, or another process replaces it
        sound = False
    return None if sound else "is damaged"


def in_use(folder: Path) -> bool:
    """Whether a process, this one included, has the entry in this folder open."""
    if fcntl is None or not folder.is_dir():
        return False
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def _mark_used(folder: Path, entry: object) -> None:
    """Lock the folder as long as the entry is in memory, so that nobody clears it, and set the time of its last use."""
    with suppress(OSError):
        os.utime(folder)
    if fcntl is None:
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            weakref.finalize(entry, os.close, descriptor)
        except TypeError:  # such an entry needs its folder no longer
            os.close(descriptor)
            return
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)


@contextmanager
def _lock(folder: Path, progress: Say) -> Iterator[None]:
    with _elsewhere(), machine_faults(folder), user_faults(folder.parent, WRITING_FAULTS):
        create_folder(folder.parent)
        lock = FileLock(folder.with_name(f"{folder.name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress("waiting for another process that prepares the same data")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _elsewhere() -> Iterator[None]:
    """Add the way out to errors about the cache's folder, which the command line does not name."""
    try:
        yield
    except (MachineError, UserError) as error:
        raise type(error)(f"{error} `$HEEDFUL_CACHE` is where the cache goes: set it to another folder.") from error


# --- all entries ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CacheEntry:
    """One entry of the cache."""

    path: Path
    kind: str  # the folder of the cache that it is in: "tokens", "tokenizers"
    size: int  # bytes
    used: float  # when it was last used, in seconds since 1970
    what: str  # its content, in words


def cache_entries() -> list[CacheEntry]:
    """Return all entries, the longest unused first."""
    with machine_faults(cache_folder()):
        return sorted(_entries(cache_folder()), key=lambda entry: entry.used)


def _entries(folder: Path) -> Iterator[CacheEntry]:
    for kind in sorted(path for path in folder.glob("*") if path.is_dir()):
        for path in kind.glob("[!.]*"):
            with suppress(FileNotFoundError):  # another process removed it
                if path.suffix != ".lock":
                    yield CacheEntry(path, kind.name, _size(path), path.stat().st_mtime, _describe(path))


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _describe(path: Path) -> str:
    """Return what an entry holds, by the files in it."""
    try:
        if (path / "meta.json").exists():
            meta: Any = read_json(path / "meta.json")
            streams = meta["streams"]
            rows = max(stream["sentences"] for stream in streams.values())
            if "pixels" in streams:
                return f"{rows:,} images of {streams['pixels']['tokens']:,} pixels"
            named = {name: stream["tokens"] for name, stream in streams.items() if name not in ("label", "picture")}
            tokens = ", ".join(f"{count:,} {name}" for name, count in named.items())
            return f"corpus of {rows:,} rows; tokens: {tokens}"
        if (path / "tokenizer.json").exists():
            tokenizer: Any = read_json(path / "tokenizer.json")
            model = tokenizer["model"]
            return f"tokenizer: {model['type']}, {len(model['vocab']):,} pieces"
    except (UserError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return "damaged: it will be made again"
    return ""


def remove_entry(path: Path) -> bool:
    """Remove an entry; return False if another process is building or using it."""
    lock = FileLock(path.with_name(f"{path.name}.lock"))
    try:
        with machine_faults(path), lock.acquire(timeout=0):
            if in_use(path):
                return False
            _remove(path)
            for leftover in path.parent.glob(f".{path.name}.*"):  # of a builder that was killed
                _remove(leftover)
            Path(lock.lock_file).unlink(missing_ok=True)
    except Timeout:
        return False
    return True


def remove_leftovers() -> None:
    """Remove what killed processes left of entries that were never finished."""
    for leftover in cache_folder().glob("*/.*.*"):
        key = leftover.name.strip(".").partition(".")[0]
        if not leftover.with_name(key).exists():
            remove_entry(leftover.with_name(key))


def _remove(path: Path) -> None:
    if path.is_dir():
        remove_folder(path)
    else:
        path.unlink(missing_ok=True)
