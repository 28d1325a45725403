"""What a child does besides reading: files written elsewhere, processes, connections, code; and lines that it reaches.

Escapes are found by audit hooks of Python (PEP 578), which see every file that Python opens for writing, removes or
renames, every process and connection that it starts, and all code that it compiles or loads.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES: Final = {  # events about paths, and how many of their arguments are paths
    "os.remove": 1, "os.rename": 2, "os.rmdir": 1, "os.mkdir": 1, "os.link": 2, "os.truncate": 1, "os.chmod": 1,
    "os.chown": 1, "os.utime": 1, "shutil.rmtree": 1,
}  # fmt: skip
_NEVER: Final = (
    "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "subprocess.Popen", "socket.connect",
    "socket.bind", "socket.getaddrinfo", "socket.sendto", "pickle.find_class", "ftplib.connect", "urllib.Request",
)  # fmt: skip
_CALLS: Final = 30  # of a function that are traced: what is called for every row has shown its lines by then
_NOWHERE: Final = ("/dev/null", "/dev/tty")


@dataclass
class Lines:
    """Lines of the sources that inputs reached, of files whose names contain one of `parts`."""

    root: str
    parts: tuple[str, ...]
    known: set[tuple[str, int]] = field(default_factory=set)


@contextmanager
def watch(folder: Path, lines: Lines | None) -> Iterator[None]:
    """Write what the block did besides reading, and the new lines that it reached, to FOLDER.seen."""
    escapes: list[str] = []
    reached: set[tuple[str, int]] = set()
    home, over = os.path.realpath(folder), False

    def is_elsewhere(path: object) -> bool:
        if isinstance(path, int) or not isinstance(path, str | bytes | os.PathLike):
            return False
        name = os.fsdecode(path)
        if name in _NOWHERE:
            return False
        real = os.path.realpath(name)
        return real != home and not real.startswith(f"{home}{os.sep}") and real not in _NOWHERE

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if over:
            return
        if event == "open":
            path, _, flags = arguments
            if flags & _WRITES and is_elsewhere(path):
                escapes.append(f"writes to {path!r}")
        elif event in _CHANGES:
            escapes.extend(f"{event} {path!r}" for path in arguments[: _CHANGES[event]] if is_elsewhere(path))
        elif event == "os.symlink":
            if is_elsewhere(arguments[1]):
                escapes.append(f"{event} {arguments[1]!r}")
        elif event in _NEVER:
            escapes.append(f"{event} {arguments!r}"[:500])
        elif event in ("exec", "compile", "ctypes.dlopen"):
            named = arguments[-1] if event == "compile" else arguments[0]
            named = named.co_filename if isinstance(named, CodeType) else named
            if isinstance(named, str | bytes) and not is_elsewhere(named) and Path(os.fsdecode(named)).exists():
                escapes.append(f"{event} {named!r}")  # a file of the input

    sys.addaudithook(hook)
    if lines is not None:
        sys.settrace(_tracer(lines, reached))
    try:
        yield
    finally:
        sys.settrace(None)
        over = True
        seen = {"escapes": escapes[:10], "lines": sorted(reached - lines.known) if lines is not None else []}
        folder.with_suffix(".seen").write_text(json.dumps(seen))


def _tracer(lines: Lines, reached: set[tuple[str, int]]) -> Any:
    wanted: dict[CodeType, str] = {}
    calls: Counter[CodeType] = Counter()

    def trace_lines(frame: FrameType, event: str, argument: Any) -> Any:
        reached.add((wanted[frame.f_code], frame.f_lineno))
        return trace_lines

    def trace_calls(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code not in wanted:
            file = code.co_filename
            inside = file.startswith(lines.root) and any(part in file for part in lines.parts)
            wanted[code] = file.removeprefix(lines.root) if inside else ""
        calls[code] += 1
        return trace_lines if wanted[code] and calls[code] <= _CALLS else None

    return trace_calls
