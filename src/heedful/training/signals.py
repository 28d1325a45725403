"""Signals as requests: SIGINT, SIGTERM and SIGHUP to stop, SIGUSR1 to save a checkpoint and continue.

While a model trains, a request to stop is carried out after the current step, with a checkpoint; a second SIGINT stops
at once. Before and after that there is nothing to wait for, and the work ends at once.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from heedful.base.errors import Stopped


class _StoppedAtOnce(KeyboardInterrupt):
    """Ends work that is not training: nothing catches it but the `StopRequest` that it belongs to."""


class StopRequest:
    """A context in which signals end the work in order instead of ending the process.

    `during_training` is the part of it in which a signal is only recorded, for the training loop to read.
    """

    def __init__(self, at_once: str = "Stopped before the first step: there was nothing to save.") -> None:
        """`at_once` is what to say of a signal that comes while no model is trained."""
        self.signal: int | None = None
        self.requested = False  # by the program itself
        self.at_once = at_once
        self.saving = False  # because SIGUSR1 requested it
        self._save = False
        self._training = False
        self._previous: dict[int, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self  # only the main thread can handle signals in Python
        stops = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` ignores it
            stops.append(signal.SIGHUP)
        for number in stops:
            self._previous[number] = signal.signal(number, self._record)
        if hasattr(signal, "SIGUSR1"):
            self._previous[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._record_save)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it is what signal.signal returned
        if isinstance(error, _StoppedAtOnce) and self.signal is not None:
            raise Stopped(self.at_once, self.signal) from None

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
        self.signal = number
        if not self._training:
            raise _StoppedAtOnce
        if again:
            raise KeyboardInterrupt

    def _record_save(self, number: int, frame: FrameType | None) -> None:
        self._save = True
