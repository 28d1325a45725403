"""The errors a user can see, each with the exit code of the command line.

A message is one line: where, what it is, what it must be, the way out.
"""

from collections.abc import Sequence
from difflib import get_close_matches


class HeedfulError(Exception):
    """An error that is shown as its one line, without a traceback."""

    exit_code = 1


class UserError(HeedfulError):
    """The user's mistake: a wrong path, a damaged file, an impossible recipe."""

    exit_code = 2


class MachineError(HeedfulError):
    """The machine's failure: disk full, no permission, out of memory."""

    exit_code = 3


class Stopped(HeedfulError):  # noqa: N818 - it is no error
    """A signal ended the work after everything was saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def nearest(word: str, known: Sequence[str]) -> str | None:
    """Return the known word that a mistyped one most likely stands for."""
    return next(iter(get_close_matches(word, known, n=1, cutoff=0.6)), None)


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return " Did you mean `x`?" for the nearest known word, or the whole list where nothing is near."""
    near = nearest(word, known)
    if near:
        return f" Did you mean `{near}`?"
    return f" Known: {', '.join(known)}." if known else ""


def counted(number: int, noun: str) -> str:
    """Return "1 line" or "2 lines"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
