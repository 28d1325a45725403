"""What verbs say besides their results: notes on standard error, as much as --quiet and --verbose ask for."""

import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType

from heedful.base.columns import printable
from heedful.base.errors import UserError


@dataclass
class Verbosity:
    """How much one command says."""

    quiet: bool = False
    verbose: bool = False
    began: float = field(default_factory=time.perf_counter)


_asked = Verbosity()


def reset() -> None:
    """Begin a command that says what is usual."""
    global _asked
    _asked = Verbosity()


def choose(quiet: bool, verbose: bool) -> None:
    """Take --quiet and --verbose, wherever they are given: an option that is not given changes nothing."""
    _asked.quiet, _asked.verbose = _asked.quiet or quiet, _asked.verbose or verbose
    if _asked.quiet and _asked.verbose:
        raise UserError("--quiet and --verbose contradict each other: leave one out.")


def is_quiet() -> bool:
    """Whether only results, warnings and errors are shown."""
    return _asked.quiet


def note(message: str) -> None:
    """Say something that is not a result and not a warning."""
    if not _asked.quiet:
        warn(message)


def detail(message: str) -> None:
    """With --verbose, say how something is done."""
    if _asked.verbose:
        warn(message)


def warn(message: str) -> None:
    """Say something that the user should know even with --quiet."""
    write_message(f"heedful: {message}")


def write_message(text: str, end: str = "\n") -> None:
    """Write to standard error. Whatever is not a result comes through here: data in it cannot act on the terminal."""
    print(printable(text), end=end, file=sys.stderr, flush=True)


@contextmanager
def busy(doing: str) -> Iterator[None]:
    """Show what takes a moment, on a terminal and only while it lasts; with --verbose say how long it took."""
    began, shown = time.perf_counter(), not _asked.quiet and sys.stderr.isatty()
    if shown:
        write_message(f"heedful: {doing} ...", end="\r")
    try:
        yield
    finally:
        if shown:
            print("\x1b[2K", end="", file=sys.stderr, flush=True)
    if _asked.verbose:
        warn(f"{doing} took {time.perf_counter() - began:.1f} s.")


def show_traceback(error: BaseException) -> None:
    """With --verbose, show where in the program an error was raised."""
    if _asked.verbose:
        write_traceback(type(error), error, error.__traceback__)


def write_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Write the traceback of an error, whose message may hold data."""
    write_message("".join(traceback.format_exception(kind, error, trace)), end="")


def show_cost() -> None:
    """With --verbose, say how long the command took and how much memory it needed."""
    if _asked.verbose:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
        warn(f"{time.perf_counter() - _asked.began:.1f} s in all, {peak:,.0f} MiB of memory at the peak.")
