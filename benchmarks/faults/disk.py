"""A disk under a folder: sees every operation of this process on the files there, records them, and fails at one.

Operations are counted from 0. A fault at operation n is one of these:

    kill     the process is killed there, with half of a write done
    full     from there on nothing can be created or written, half of a write is done, and files can still be removed
    error    this operation alone fails, as on a damaged disk
    short    this write writes half of its bytes and says so, which the system may do at any time

A record is complete: an audit hook of Python notes whatever changes files behind the back of this disk, and a replay
of the whole record must give the folder as it is (`Log.differences`).
"""

import builtins
import errno
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from unittest.mock import patch

from benchmarks.faults.power_loss import Log

from heedful.base import files

FaultKind = Literal["kill", "full", "error", "short"]
FAULTS: Final[tuple[FaultKind, ...]] = ("kill", "full", "error", "short")
_CREATES: Final = ("open", "write", "mkdir", "link", "symlink")
_REMOVES: Final = ("unlink", "rmdir")
_CHANGING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_AUDITED: Final = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate")
Function = Callable[..., Any]


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and at which operation."""

    kind: FaultKind
    at: int


@dataclass
class Disk:
    """The operations on files under a folder; other files are not its concern."""

    root: Path
    fault: Fault | None = None
    log: Log | None = None  # what is recorded, if it is to be
    audited: bool = True  # a hook of Python stays as long as the process
    operations: list[str] = field(default_factory=list)  # that were begun: "replace last.json"
    missed: list[str] = field(default_factory=list)  # changes of files that this disk has not seen
    _here: threading.local = field(default_factory=threading.local)

    @contextmanager
    def mounted(self) -> Iterator["Disk"]:
        """Let this process use the disk inside the block."""
        active = True
        if self.log is not None and self.audited:
            sys.addaudithook(lambda event, arguments: self._audit(event, arguments) if active else None)
        opened = self._opened(io.open)
        with ExitStack() as stack:
            for name in ("mkdir", "unlink", "remove", "rmdir"):
                stack.enter_context(patch.object(os, name, self._at_one_path(name, getattr(os, name))))
            for name in ("rename", "replace", "symlink", "link"):
                stack.enter_context(patch.object(os, name, self._at_two_paths(name, getattr(os, name))))
            stack.enter_context(patch.object(os, "open", self._opened_by_number(os.open)))
            stack.enter_context(patch.object(os, "fsync", self._fsync(os.fsync)))
            stack.enter_context(patch.object(os, "ftruncate", self._ftruncate(os.ftruncate)))
            stack.enter_context(patch.object(io, "open", opened))
            stack.enter_context(patch.object(builtins, "open", opened))
            if hasattr(files, "_swap"):
                stack.enter_context(patch.object(files, "_swap", self._swap(files._swap)))
            try:
                yield self
            finally:
                active = False

    # --- faults -------------------------------------------------------------------------------------------------------

    def reach(self, kind: str, path: str, half: Callable[[], object] = lambda: None) -> bool:
        """Count an operation, or fail in it, after doing half of it; return whether it is to do no more than that."""
        number = len(self.operations)
        self.operations.append(_label(kind, path))
        if self.fault is None or number < self.fault.at:
            return False
        first = number == self.fault.at
        match self.fault.kind:
            case "kill":
                half()
                os.kill(os.getpid(), signal.SIGKILL)
            case "full" if kind in _CREATES or (first and kind not in _REMOVES):
                half()
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            case "error" if first:
                half()
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            case "short":
                return first
        return False

    # --- what replaces functions of Python ----------------------------------------------------------------------------

    def _path(self, path: Any, folder: int | None = None) -> str | None:
        """Return the path of a file of this disk; None for any other."""
        if isinstance(path, int):
            path = _path_of(path)
        name = os.fsdecode(path)
        whole = os.path.abspath(name if folder is None else f"{_path_of(folder)}/{name}")  # noqa: PTH100
        return whole if f"{whole}/".startswith(f"{self.root}/") else None

    @contextmanager
    def _seen(self) -> Iterator[None]:
        self._here.seen = True
        try:
            yield
        finally:
            self._here.seen = False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if getattr(self._here, "seen", False) or event not in ("open", *_AUDITED):
            return
        path = arguments[1] if event == "os.rename" else arguments[0]
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _CHANGING):
            return
        if isinstance(path, str | bytes | os.PathLike) and self._path(path) is not None:
            self.missed.append(f"{event} {os.fsdecode(path)}")

    def _at_one_path(self, kind: str, operation: Function) -> Function:
        def function(path: Any, *arguments: Any, **options: Any) -> Any:
            named = self._path(path, options.get("dir_fd"))
            if named is None:
                return operation(path, *arguments, **options)
            if kind == "mkdir" and os.path.isdir(named):  # noqa: PTH112
                with self._seen():  # it fails, and changes nothing
                    return operation(path, *arguments, **options)
            self.reach("unlink" if kind == "remove" else kind, named)
            with self._seen():
                done = operation(path, *arguments, **options)
            if self.log is not None:
                self.log.made(named) if kind == "mkdir" else self.log.removed(named)
            return done

        return function

    def _at_two_paths(self, kind: str, operation: Function) -> Function:
        def function(first: Any, second: Any, *arguments: Any, **options: Any) -> Any:
            target, source = self._path(second), self._path(first)
            if target is None:
                return operation(first, second, *arguments, **options)
            self.reach(kind, target)
            with self._seen():
                done = operation(first, second, *arguments, **options)
            if self.log is not None and kind == "symlink":
                self.log.made(target, os.fsdecode(first))
            elif self.log is not None:
                assert source is not None, "files come to this disk only by being written"
                self.log.linked(source, target) if kind == "link" else self.log.renamed(source, target)
            return done

        return function

    def _swap(self, operation: Function) -> Function:
        def function(first: Path, second: Path) -> bool:
            names = self._path(first), self._path(second)
            if names[0] is None or names[1] is None:
                return bool(operation(first, second))
            self.reach("swap", names[1])
            done = bool(operation(first, second))
            if done and self.log is not None:
                self.log.swapped(names[0], names[1])
            return done

        return function

    def _fsync(self, operation: Function) -> Function:
        def function(file: Any) -> None:
            number = file if isinstance(file, int) else file.fileno()
            named = self._path(number)
            if named is not None:
                self.reach("fsync", named)
                if self.log is not None:
                    self.log.synced(named)
            operation(number)

        return function

    def _ftruncate(self, operation: Function) -> Function:
        def function(number: int, size: int) -> None:
            named = self._path(number)
            if named is not None:
                self.reach("truncate", named)
            operation(number, size)
            if named is not None and self.log is not None:
                node = self.log.node(named)
                assert node is not None
                self.log.cut(node, size)

        return function

    def _opened_by_number(self, operation: Function) -> Function:
        def opened(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            named = self._path(path, options.get("dir_fd"))
            if named is None or not flags & _CHANGING:
                return int(operation(path, flags, *arguments, **options))
            self.reach("open", named)
            with self._seen():
                number = int(operation(path, flags, *arguments, **options))
            if self.log is not None:
                self.log.opened(named, bool(flags & os.O_TRUNC))
            return number

        return opened

    def _opened(self, operation: Function) -> Function:
        def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            path = None if isinstance(file, int) else self._path(file)
            if path is None or not set(mode) & set("wax+"):
                return operation(file, mode, *arguments, **options)
            assert "b" in mode, "files of ours are written as bytes"
            self.reach("open", path)
            with self._seen():
                raw = _Raw(path, mode.replace("b", ""))
            raw.disk, raw.path = self, path
            raw.node = -1 if self.log is None else self.log.opened(path, "w" in mode)
            return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

        return opened


class _Raw(io.FileIO):
    """A file of a disk."""

    disk: Disk
    path: str
    node: int

    def write(self, data: Any) -> int:
        whole = bytes(data)
        half = whole[: (len(whole) + 1) // 2]
        return self._put(half if self.disk.reach("write", self.path, lambda: self._put(half)) else whole)

    def _put(self, data: bytes) -> int:
        at = os.fstat(self.fileno()).st_size if "a" in self.mode else self.tell()
        count = super().write(data)
        if self.disk.log is not None:
            self.disk.log.written(self.node, at, data[:count])
        return count

    def truncate(self, size: int | None = None) -> int:
        length = self.tell() if size is None else size
        self.disk.reach("truncate", self.path)
        if self.disk.log is not None:
            self.disk.log.cut(self.node, length)
        return super().truncate(length)


def _path_of(number: int) -> str:
    """Return the path of an open file."""
    return os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115


def _label(kind: str, path: str) -> str:
    """Return an operation without what differs from run to run: `replace last.json`."""
    name = re.sub(r"\.[0-9a-f]{32}$", "", path.rpartition("/")[2])
    return f"{kind} " + re.sub(r"[0-9a-f]{64}", "KEY", re.sub(r"step-\d{8}", "step-N", name))
