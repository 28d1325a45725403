"""Notes and progress: what a lower layer says about its work to whoever listens.

A note is what was found out about a user's files and taken, such as an encoding or a separator. It is neither a result
nor an error. It goes to the command line, or to the progress of a training.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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


# Shows the progress of some work ("translating") over a number of items; the function is told how many were finished.
ShowProgress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


def show_nothing(work: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show no progress."""
    return nullcontext(lambda finished: None)
