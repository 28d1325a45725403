"""Lines of a pipe or a terminal, as they come."""

import io
import os
import select
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

import typer

from heedful.data.corpora.lines import TextFile, check_exists, decode_lines, locate, read_lines

_PATIENCE: Final = 0.02  # seconds in which a writer that is not waiting for an answer sends its next line
_READ: Final = 1 << 16  # bytes


class ArrivingLines:
    """The lines of a file descriptor, each with its end, and whether a further one is there already."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._begun = b""  # of a line whose end has not come yet
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        while True:
            while self._lines:
                yield self._lines.popleft()
            if self._ended:
                return
            self._receive()

    def ready(self) -> bool:
        """Whether the next line can be had without waiting for it."""
        while not self._lines and not self._ended and select.select([self._descriptor], [], [], _PATIENCE)[0]:
            self._receive()
        return bool(self._lines)

    def _receive(self) -> None:
        """Take what has come, waiting where nothing has."""
        data = os.read(self._descriptor, _READ)
        self._ended = not data
        *whole, self._begun = _split(self._begun + data)
        self._lines.extend(whole)
        if self._ended and self._begun:
            self._lines.append(self._begun)


def _split(data: bytes) -> list[bytes]:
    """Cut behind every newline; the last piece is what follows the last one."""
    *whole, rest = data.split(b"\n")
    return [*(line + b"\n" for line in whole), rest]


STANDARD_INPUT: Final = "-"
_HINT: Final = " (texts are read from files or from standard input, not from the command line)"
FilesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILES", help="Text, .gz, .xz or member of a .zip; `-` is standard input."),
]


@dataclass(frozen=True)
class InputLines:
    """Lines, where they come from, and whether a further one is there already."""

    name: str
    lines: Callable[[], Iterable[str]]
    ready: Callable[[], bool] = lambda: True
    file: TextFile | None = None  # where it can be read twice


def input_lines(files: Sequence[str] | None) -> list[InputLines]:
    """The lines of files, or of standard input where none is named; refuses what cannot be opened."""
    return [_of_file(name) if name != STANDARD_INPUT else _standard_input() for name in files or [STANDARD_INPUT]]


def count_lines(inputs: Sequence[InputLines]) -> int | None:
    """How many lines there are, where it can be known before they are answered."""
    known = [entry.file for entry in inputs if entry.file]
    return None if len(known) < len(inputs) else sum(1 for file in known for _ in read_lines(file))


def _of_file(name: str) -> InputLines:
    file = replace(locate(name), hint=_HINT if " " in name else "")  # instead of one about recipes
    check_exists(file)
    again = file if file.path.is_file() else None
    return InputLines(file.name, lambda: read_lines(file), file=again)


def _standard_input() -> InputLines:
    name = "standard input"
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:  # not the process's own: there is nothing to await
        return InputLines(name, lambda: decode_lines(sys.stdin.buffer, name))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return InputLines(name, lambda: decode_lines(sys.stdin.buffer, name))
    arriving = ArrivingLines(descriptor)
    return InputLines(name, lambda: decode_lines(arriving, name), arriving.ready)
