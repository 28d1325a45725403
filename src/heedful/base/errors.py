"""The errors that a user can see, each with the exit code of the command line.

A message is one line: where, what is wrong, what it must be, and what to do.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Final

_ON_COMMAND_LINE: Final = ContextVar("on_command_line", default=False)
_FLAGS: Final = {"nbest": "n-best", "samples": "n-best"}  # that are not spelled like their arguments


class HeedfulError(Exception):
    """An error that is shown as one line, without a traceback."""

    exit_code = 1


class UserError(HeedfulError):
    """A mistake of the user: a wrong path, a damaged file, an impossible recipe."""

    exit_code = 2


class UserErrors(UserError):  # noqa: N818 - several of them
    """Several mistakes at once, each with a line of its own."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = [*lines]
        super().__init__("\n".join(self.lines))


class MachineError(HeedfulError):
    """A failure of the machine: disk full, no permission, out of memory."""

    exit_code = 3


class Stopped(HeedfulError):  # noqa: N818 - it is not an error
    """A signal ended the work after everything was saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


@contextmanager
def memory_faults(way_out: str) -> Iterator[None]:
    """Turn a full memory into a MachineError of one line; `way_out` names the options that fill it, with values."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        fault = memory_error(error, way_out)
        if fault is None:
            raise
        raise fault from error


def memory_error(error: Exception, way_out: str) -> MachineError | None:
    """Return a one-line MachineError for an error that says that memory is full, otherwise None.

    Errors of torch are recognised by name and message, as importing torch to ask would take seconds.
    """
    on_gpu = type(error).__name__ == "OutOfMemoryError"
    if not (on_gpu or isinstance(error, MemoryError) or "can't allocate memory" in str(error)):
        return None
    return MachineError(f"{'the GPU' if on_gpu else 'the machine'}'s memory is full: {way_out}.")


def nearest(word: str, known: Sequence[str]) -> str | None:
    """Return the known word that is most similar to a mistyped one, if any is similar."""
    return next(iter(get_close_matches(word, known, n=1, cutoff=0.6)), None)


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return " Did you mean `x`?" for the most similar known word, or the whole list if none is similar."""
    near = nearest(word, known)
    if near:
        return f" Did you mean `{near}`?"
    return f" Known: {', '.join(known)}." if known else ""


def alternatives(names: Iterable[str]) -> str:
    """Return quoted names in words: "a", "b" or "c"."""
    *others, last = [f'"{name}"' for name in names]
    return f"{', '.join(others)} or {last}" if others else last


def counted(number: int, noun: str) -> str:
    """Return "1 line" or "2 lines"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{'es' if noun.endswith('x') else 's'}"


@contextmanager
def on_command_line() -> Iterator[None]:
    """Let messages name the flags of the command line inside the block; elsewhere they name arguments of Python."""
    before = _ON_COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _ON_COMMAND_LINE.reset(before)


def is_command() -> bool:
    """Whether this process runs a command line, so that it may be ended; otherwise it is a user's program."""
    return _ON_COMMAND_LINE.get()


def by_caller(flag: str, argument: str) -> str:
    """Return an option as the caller spells it: `--resume` on the command line, `resume=True` in Python."""
    return flag if is_command() else argument


def option(name: str) -> str:
    """Return an option by the name of its argument, as the caller spells it: `--top-k`, or `top_k` in backquotes."""
    return by_caller(f"--{_FLAGS.get(name, name.replace('_', '-'))}", f"`{name}`")
