"""Savers that are known to be bad, in place of ours: the faults of these tests must find out each of them."""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, Literal
from unittest.mock import patch

from benchmarks.faults.disk import FaultKind

from heedful.base import files
from heedful.runs import job
from heedful.training import checkpoints

Saver = Callable[[], AbstractContextManager[object]]  # puts a bad saver in the place of ours inside a block
OURS: Final[Saver] = nullcontext


@contextmanager
def _in_place() -> Iterator[None]:
    """Files are written where they are."""

    @contextmanager
    def writing(path: Path) -> Iterator[Callable[[bytes], Any]]:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            yield file.write
            file.flush()
            os.fsync(file.fileno())

    with patch.object(files, "writing", writing):
        yield


@contextmanager
def _delete_then_rename() -> Iterator[None]:
    """The old file is removed before the new one has its name."""
    replace = Path.replace

    def delete_first(staged: Path, target: Path) -> Path:
        target.unlink(missing_ok=True)
        return replace(staged, target)

    with patch.object(Path, "replace", delete_first):
        yield


@contextmanager
def _without_sync() -> Iterator[None]:
    """Nothing is synced before it is renamed, nor afterwards."""
    with patch.object(os, "fsync", lambda number: None):
        yield


@contextmanager
def _without_sync_of_folders() -> Iterator[None]:
    """Files are synced, and their names are not."""
    sync = os.fsync

    def only_files(number: int) -> None:
        if not stat.S_ISDIR(os.fstat(number).st_mode):
            sync(number)

    with patch.object(os, "fsync", only_files):
        yield


@contextmanager
def _pointer_first() -> Iterator[None]:
    """The file that names the last checkpoint is written before the checkpoint is."""
    write_folder = files.write_folder

    def name_first(path: Path, content: Mapping[str, bytes]) -> None:
        files.write_json(path.parent / "last.json", {"folder": path.name})
        write_folder(path, content)

    with patch.object(checkpoints, "write_folder", name_first):
        yield


@contextmanager
def _unfinished_folder() -> Iterator[None]:
    """A checkpoint has its name before it is whole."""

    def in_place(path: Path, content: Mapping[str, bytes]) -> None:
        path.mkdir(parents=True, exist_ok=True)
        for name, data in sorted(content.items()):
            (path / name).write_bytes(data)

    with patch.object(checkpoints, "write_folder", in_place):
        yield


@contextmanager
def _old_one_first() -> Iterator[None]:
    """Old checkpoints are removed before the new one is saved."""
    save = files.write_folder

    def remove_first(path: Path, content: Mapping[str, bytes]) -> None:
        for old in path.parent.glob("step-*"):
            files.remove_folder(old)
        save(path, content)

    with patch.object(checkpoints, "write_folder", remove_first):
        yield


@contextmanager
def _written_once() -> Iterator[None]:
    """What a write has left is not written."""
    opened = Path.open

    def unbuffered(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        file = opened(path, mode, *arguments, **options)
        return file if "r" in mode or "+" in mode else _Once(file)

    class _Once:
        def __init__(self, file: Any) -> None:
            self._file = file

        def write(self, data: bytes) -> int:
            self._file.raw.write(data)
            return len(data)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    with patch.object(Path, "open", unbuffered):
        yield


@contextmanager
def _without_falling_back() -> Iterator[None]:
    """Only the newest checkpoint is ever loaded."""
    with patch.object(job, "checkpoints_instead_of", lambda checkpoint: []):
        yield


@contextmanager
def _without_check() -> Iterator[None]:
    """What a checkpoint holds is not compared with its hashes."""
    with patch.object(checkpoints, "_verified", lambda file, manifest, way_out: file.read_bytes()):
        yield


# By name; and the faults that find it out.
FoundBy = FaultKind | Literal["power", "power again", "damage"]
BAD_SAVERS: Final[Mapping[str, tuple[Saver, FoundBy]]] = {
    "in place": (_in_place, "kill"),
    "delete then rename": (_delete_then_rename, "power again"),
    "rename without sync": (_without_sync, "power"),
    "sync of files, not of folders": (_without_sync_of_folders, "power"),
    "pointer before its checkpoint": (_pointer_first, "power"),
    "a folder that is not whole": (_unfinished_folder, "power"),
    "old checkpoint removed first": (_old_one_first, "power again"),
    "no fall-back": (_without_falling_back, "damage"),
    "no check of what is read": (_without_check, "damage"),
    "a short write is not continued": (_written_once, "short"),
}
