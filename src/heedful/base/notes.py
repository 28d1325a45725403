"""Notes and progress: what a lower layer says about its work to whoever listens.

A note is what was found out about a user's files and taken, such as an encoding or a separator. It is neither a result
nor an error. It goes to the command line, or to the progress of a training.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

_Listener = tuple[Callable[[str], None], Callable[[str], None], set[str]]
_LISTENER: ContextVar[_Listener | None] = ContextVar("listener", default=None)


def _ignore(message: str) -> None:
    """Listen to nothing."""


@contextmanager
def listening(listener: Callable[[str], None], details: Callable[[str], None] = _ignore) -> Iterator[None]:
    """Hand the notes that are made inside the block to this function, but for those that an outer block has handed on.

    Each note is handed on once: files are read several times. `details` gets what few want to know.
    """
    outer = _LISTENER.get()
    before = _LISTENER.set((listener, details, set() if outer is None else outer[2]))
    try:
        yield
    finally:
        _LISTENER.reset(before)


def note(message: str) -> None:
    """Make a note; where nobody listens, nothing happens."""
    found = _LISTENER.get()
    if found is not None and message not in found[2]:
        found[2].add(message)
        found[0](message)


def detail(message: str) -> None:
    """Make a note of how something is computed, which `--verbose` shows."""
    found = _LISTENER.get()
    if found is not None and message not in found[2]:
        found[2].add(message)
        found[1](message)


# Shows the progress of some work ("translating") over a number of items; the function is told how many were finished.
ShowProgress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


def show_nothing(work: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show no progress."""
    return nullcontext(lambda finished: None)
