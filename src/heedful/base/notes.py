"""Notes: what a lower layer found out about a user's files and took, such as an encoding or a separator.

A note is neither a result nor an error. It goes to whoever listens: the command line, or the progress of a training.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LISTENER: ContextVar[tuple[Callable[[str], None], set[str]] | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Hand the notes that are made inside the block to this function, but for those that an outer block has handed on.

    Each note is handed on once: files are read several times.
    """
    outer = _LISTENER.get()
    before = _LISTENER.set((listener, set() if outer is None else outer[1]))
    try:
        yield
    finally:
        _LISTENER.reset(before)


def note(message: str) -> None:
    """Make a note; where nobody listens, nothing happens."""
    found = _LISTENER.get()
    if found is not None and message not in found[1]:
        found[1].add(message)
        found[0](message)
