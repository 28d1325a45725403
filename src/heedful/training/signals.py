"""Signals as requests: SIGINT, SIGTERM and SIGHUP to stop, SIGUSR1 to save a checkpoint and continue.

While a model trains, a request to stop is carried out after the current step, with a checkpoint; a second SIGINT stops
at once. Before and after that there is nothing to wait for, and the work ends at once. A command that is already ending
ends its process at the next signal, without a word: what it has written is whole.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, ClassVar, Final, Self

from heedful.base.errors import Stopped, is_command

_SHOW_CURSOR: Final = b"\x1b[?25h"  # which a progress line hides
_AGAIN_SECONDS: Final = 0.02  # until a signal is repeated that ended nothing


class _StoppedAtOnce(KeyboardInterrupt):
    """Ends work that is not training: nothing catches it but the `StopRequest` that it belongs to."""


def end_process(number: int) -> None:
    """End this process at once with the exit code of a signal; nothing is printed, and no thread is waited for.

    An interpreter that shuts down in order can fail once signals come: threads that are inside of torch or of a
    tokenizer abort the process when they find the interpreter gone, and handlers raise where nothing can catch it.
    """
    with suppress(OSError):
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)
    os._exit(128 + number)


def heed_interrupts() -> None:
    """Let the first Ctrl-C of a command raise KeyboardInterrupt, and the second end its process."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(number, lambda number, frame: end_process(number))
        if StopRequest._ending:
            end_process(number)
        raise KeyboardInterrupt

    def ignored(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):  # it ended nothing, and would be asked for again
            end_process(signal.SIGINT)
        before(unraisable)

    before = sys.unraisablehook
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as in the background of a shell
        signal.signal(signal.SIGINT, interrupt)
        sys.unraisablehook = ignored


def restore_signals() -> None:
    """Let signals end a process that has nothing left to do, instead of raising while the interpreter shuts down."""
    for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


class StopRequest:
    """A context in which signals end the work in order instead of ending the process.

    `during_training` is the part of it in which a signal is only recorded, for the training loop to read.
    """

    _depth: ClassVar[int] = 0  # contexts inside of each other
    _ending: ClassVar[bool] = False  # a stop was requested in one of them

    def __init__(self, at_once: str = "Stopped before the first step: there was nothing to save.") -> None:
        """`at_once` is what to say of a signal that comes while no model is trained."""
        self.signal: int | None = None
        self.requested = False  # by the program itself
        self.at_once = at_once
        self.saving = False  # because SIGUSR1 requested it
        self._save = False
        self._training = False
        self._inside = False  # all handlers are installed: before and after that a signal can only be recorded
        self._raised = False  # an exception of ours is ending the work
        self._previous: dict[int, Any] = {}
        self._hook: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self  # only the main thread can handle signals in Python
        StopRequest._ending = StopRequest._ending and StopRequest._depth > 0
        StopRequest._depth += 1
        stops = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` ignores it
            stops.append(signal.SIGHUP)
        try:
            self._hook, sys.unraisablehook = sys.unraisablehook, self._repeat
            for number in stops:
                self._previous[number] = signal.signal(number, self._record)
            if hasattr(signal, "SIGUSR1"):
                self._previous[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._record_save)
            self._inside = True
            if self.signal is not None:  # it came in between
                raise _StoppedAtOnce
        except _StoppedAtOnce:
            self._restore()
            assert self.signal is not None
            raise Stopped(self.at_once, self.signal) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside, before = False, self.signal
        self._restore()
        if self._raised and self.signal is not None and error is not None and not isinstance(error, Stopped):
            raise Stopped(self.at_once, self.signal) from None  # whatever a library has made of our exception
        if error is None and self.signal is not None and before is None:
            signal.raise_signal(self.signal)  # it came while handlers were restored: it is for those

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._previous:
            sys.unraisablehook = self._hook
            StopRequest._depth -= 1

    @contextmanager
    def during_training(self) -> Iterator[None]:
        """Only record signals inside the block."""
        self._training = True
        try:
            yield
        finally:
            self._training = False

    def take_save(self) -> bool:
        """Return whether a checkpoint was requested since the last call; `saving` is the same until the next one."""
        self.saving, self._save = self._save, False
        return self.saving

    def request(self) -> None:
        """Stop after the current step, with a checkpoint, as a signal would; nothing is raised."""
        self.requested = True

    def _record(self, number: int, frame: FrameType | None) -> None:
        again = self.signal == signal.SIGINT and number == signal.SIGINT
        inside_has_stopped = StopRequest._ending and self.signal is None
        if (self._raised or inside_has_stopped) and is_command():
            end_process(number)
        self.signal, StopRequest._ending = number, True
        if not self._inside:
            return
        if not self._training:
            self._raised = True
            raise _StoppedAtOnce
        if again:
            self._raised = True
            raise KeyboardInterrupt

    def _record_save(self, number: int, frame: FrameType | None) -> None:
        self._save = True

    def _repeat(self, unraisable: Any) -> None:
        """Send a signal again whose exception ended nothing: it was raised where Python ignores all exceptions."""
        if not isinstance(unraisable.exc_value, KeyboardInterrupt) or self.signal is None:
            self._hook(unraisable)
            return
        self._raised = False
        again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), self.signal))
        again.daemon = True
        again.start()
