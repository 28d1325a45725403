"""The entries of the cache: what each is, how large and how old, and their removal unless a process is using them."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from heedful.data.cache import cache_folder, in_use
from heedful.files import machine_faults, remove_folder


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
            streams = json.loads((path / "meta.json").read_bytes())["streams"]
            rows = max(stream["sentences"] for stream in streams.values())
            tokens = ", ".join(f"{stream['tokens']:,} {name}" for name, stream in streams.items() if name != "label")
            return f"corpus of {rows:,} rows; tokens: {tokens}"
        if (path / "tokenizer.json").exists():
            model = json.loads((path / "tokenizer.json").read_bytes())["model"]
            return f"tokenizer: {model['type']}, {len(model['vocab']):,} pieces"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
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
