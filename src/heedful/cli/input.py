"""What verbs read: lines of files or of standard input, as they arrive, and texts or pairs of texts on them."""

import io
import os
import select
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from heedful.data.corpora.lines import TextFile, check_exists, decode_lines, locate, read_lines
from heedful.errors import UserError, counted

_STANDARD_INPUT: Final = "-"
_HINT: Final = " (texts are read from files or from standard input, not from the command line)"
_PATIENCE: Final = 0.02  # seconds in which a writer that is not waiting for an answer sends its next line
_READ: Final = 1 << 16  # bytes


# --- lines --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InputLines:
    """The lines of one input, its name in messages, and whether the next line has arrived."""

    name: str
    lines: Callable[[], Iterable[str]]
    ready: Callable[[], bool] = lambda: True
    file: TextFile | None = None  # set if it can be read twice


def input_lines(files: Sequence[str] | None) -> list[InputLines]:
    """Open files, or standard input if none is named; refuse a file that is not there."""
    return [_of_file(name) if name != _STANDARD_INPUT else standard_input() for name in files or [_STANDARD_INPUT]]


def count_lines(inputs: Sequence[InputLines]) -> int | None:
    """Return the number of lines, if it can be known before they are answered."""
    known = [entry.file for entry in inputs if entry.file]
    return None if len(known) < len(inputs) else sum(1 for file in known for _ in read_lines(file))


def _of_file(name: str) -> InputLines:
    file = replace(locate(name), hint=_HINT if " " in name else "")  # instead of a hint about recipes
    check_exists(file)
    again = file if file.path.is_file() else None
    return InputLines(file.name, lambda: read_lines(file), file=again)


def standard_input() -> InputLines:
    """Open standard input; lines of a pipe or a terminal are taken as they arrive."""
    name = "standard input"
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:  # a stream in memory: nothing has to be waited for
        return InputLines(name, lambda: decode_lines(sys.stdin.buffer, name))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return InputLines(name, lambda: decode_lines(sys.stdin.buffer, name))
    arriving = ArrivingLines(descriptor)
    return InputLines(name, lambda: decode_lines(arriving, name), arriving.ready)


class ArrivingLines:
    """The lines of a file descriptor, each with its newline, and whether the next one has arrived."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._partial = b""  # the start of a line whose end has not arrived
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        while True:
            while self._lines:
                yield self._lines.popleft()
            if self._ended:
                return
            self._receive()

    def ready(self) -> bool:
        """Whether the next line has arrived."""
        while not self._lines and not self._ended and select.select([self._descriptor], [], [], _PATIENCE)[0]:
            self._receive()
        return bool(self._lines)

    def _receive(self) -> None:
        """Take what has arrived; wait if nothing has."""
        data = os.read(self._descriptor, _READ)
        self._ended = not data
        *whole, self._partial = _split(self._partial + data)
        self._lines.extend(whole)
        if self._ended and self._partial:
            self._lines.append(self._partial)


def _split(data: bytes) -> list[bytes]:
    """Split after every newline; the last part is what follows the last one."""
    *whole, rest = data.split(b"\n")
    return [*(line + b"\n" for line in whole), rest]


# --- texts --------------------------------------------------------------------------------------------------------


def pairs_of(lines: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    """Read a source and its translation from each line, separated by a tab."""
    for number, line in enumerate(lines, start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise UserError(
                f"{name}, line {number:,} has {counted(len(columns), 'column')}, but must have two: a source and its "
                "translation, separated by a tab."
            )
        yield columns[0], columns[1]
