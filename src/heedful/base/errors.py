"""The errors that a user can see, each with the exit code of the command line; what is said of errors of the system.

A message is one line: where, what is wrong, what it must be, and what to do.
"""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from typing import Final

_ON_COMMAND_LINE: Final = ContextVar("on_command_line", default=False)
_AGAIN: Final = "free some space and AGAIN"  # see `machine_error`
_MACHINE_FAULTS: Mapping[int, str] = {
    errno.ENOSPC: f"the disk is full: {_AGAIN}",
    errno.EDQUOT: f"the disk quota is used up: {_AGAIN}",
    errno.EACCES: "no permission: choose another folder or change the permissions",
    errno.EPERM: "no permission: choose another folder or change the permissions",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.EIO: "the disk reported an input/output error",
    errno.EMFILE: "too many open files: raise the limit with `ulimit -n`",
}
READING_FAULTS: Mapping[int, str] = {
    errno.ENOENT: "no such file",
    errno.EISDIR: "this is a folder, but must be a file",
    errno.ENOTDIR: "a file exists where a folder must be",
    errno.EEXIST: "a file exists where a folder must be",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "its symbolic links form a loop",
}
WRITING_FAULTS: Mapping[int, str] = {
    **READING_FAULTS,
    errno.ENOENT: "cannot be written: there is no such folder, choose another",
}
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
    # Of words 7/3 times as long none is similar enough, but to find that out takes minutes for one of megabytes.
    if len(word) > 3 * max(map(len, known), default=0):
        return None
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


# --- errors of the system ---------------------------------------------------------------------------------------------


@contextmanager
def machine_faults(path: Path) -> Iterator[None]:
    """Turn OS errors that are the machine's fault into a MachineError of one line."""
    try:
        yield
    except OSError as error:
        fault = machine_error(error, path)
        if fault is None:
            raise
        raise fault from error


def machine_error(error: OSError, path: Path) -> MachineError | None:
    """Return a one-line MachineError for an OS error that is the machine's fault, otherwise None."""
    reason = _MACHINE_FAULTS.get(error.errno or 0)
    again = by_caller(
        "run the same command again (with --resume if it was training)",
        "try again (with `resume=True` if it was training)",
    )
    return MachineError(f"{path}: {reason.replace('AGAIN', again)}.") if reason else None


def impossible_name(error: OSError) -> UserError | None:
    """Return a one-line UserError for an OS error about a name that no file can have, otherwise None."""
    if error.filename is None or error.errno not in (errno.ENAMETOOLONG, errno.ELOOP):
        return None
    return UserError(f"{os.fsdecode(error.filename)}: {READING_FAULTS[error.errno]}.")


@contextmanager
def user_faults(path: Path, faults: Mapping[int, str] = READING_FAULTS) -> Iterator[None]:
    """Turn OS errors caused by a path that the user gave into a UserError of one line."""
    try:
        yield
    except OSError as error:
        reason = faults.get(error.errno or 0)
        if reason is None:
            raise
        raise UserError(f"{path}: {reason}.") from error
