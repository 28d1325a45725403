"""A disk that fails: it counts the operations that change files, and kills the process, or is full, at one of them."""

import errno
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest

Fault = Literal["killed", "full"]
_ALLOCATES = ("open", "write", "mkdir")
_FREES = ("unlink", "rmdir")


class Killed(BaseException):
    """The process is gone: whatever runs after this reaches the disk no more."""


class FailingDisk:
    """Fails at operation number `at`, and in what comes after it as a dead process or a full disk does.

    A write that fails is half done. A killed process does nothing more; on a full disk files can still be removed, and
    whatever is already there can be renamed.
    """

    def __init__(self, at: int | None = None, fault: Fault = "killed") -> None:
        self.at, self.fault = at, fault
        self.done: list[str] = []

    @contextmanager
    def mounted(self) -> Iterator["FailingDisk"]:
        """Let this process use the disk inside the block."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("mkdir", "rename", "replace", "unlink", "remove", "rmdir", "fsync"):
                patch.setattr(os, name, self._counted(name, getattr(os, name)))
            patch.setattr(os, "open", self._opened_by_number(os.open))
            patch.setattr(io, "open", self._opened(io.open))
            yield self

    def reach(self, kind: str, name: object) -> None:
        """Count an operation, or fail in it."""
        number = len(self.done)
        self.done.append(_label(kind, name))
        if self.at is None or number < self.at:
            return
        if self.fault == "killed":
            raise Killed
        if kind in _ALLOCATES or (number == self.at and kind not in _FREES):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(name))

    def _counted(self, kind: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        kind = {"remove": "unlink"}.get(kind, kind)

        def counted(*arguments: Any, **options: Any) -> Any:
            if kind != "mkdir" or not os.path.isdir(arguments[0]):  # noqa: PTH112  # it fails there, and changes nothing
                self.reach(kind, arguments[1] if kind in ("rename", "replace") else arguments[0])
            return operation(*arguments, **options)

        return counted

    def _opened_by_number(self, operation: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self.reach("open", path)
            return operation(path, flags, *arguments, **options)

        return opened

    def _opened(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        disk = self

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                try:
                    disk.reach("write", self.name)
                except BaseException:
                    super().write(bytes(data)[: len(data) // 2])
                    raise
                return super().write(data)

        def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if not set(mode) & set("wax+"):
                return operation(file, mode, *arguments, **options)
            assert "b" in mode, "files of ours are written as bytes"
            self.reach("open", file)
            raw = Raw(os.fspath(file), mode.replace("b", ""))
            return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

        return opened


def _label(kind: str, name: object) -> str:
    """Return an operation without what differs from run to run: `replace last.json`."""
    last = re.sub(r"\.[0-9a-f]{32}$", "", str(name).rpartition("/")[2])
    last = re.sub(r"[0-9a-f]{64}", "KEY", re.sub(r"step-\d{8}", "step-N", last))
    return kind if kind == "fsync" else f"{kind} {last}"
