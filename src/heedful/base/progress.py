"""How the progress of some work is shown."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

# Shows the progress of some work ("translating") over a number of items; the function is told how many were finished.
ShowProgress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


def show_nothing(work: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show no progress."""
    return nullcontext(lambda finished: None)
