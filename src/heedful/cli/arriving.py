"""Lines of a pipe or a terminal, as they come."""

import os
import select
from collections import deque
from collections.abc import Iterator
from typing import Final

_PATIENCE: Final = 0.02  # seconds in which a writer that is not waiting for an answer sends its next line
_READ: Final = 1 << 16  # bytes


class Arriving:
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
