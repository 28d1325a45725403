"""SIGINT, SIGTERM and SIGHUP as requests to stop after the current step; a second SIGINT stops at once."""

import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Self


class StopRequest:
    """A context in which signals are recorded instead of ending the process."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._previous: dict[int, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self  # only the main thread can handle signals in Python
        for number in _stop_signals():
            self._previous[number] = signal.signal(number, self._record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it is what signal.signal returned

    def _record(self, number: int, frame: FrameType | None) -> None:
        if self.signal == signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


def _stop_signals() -> Iterator[int]:
    yield from (signal.SIGINT, signal.SIGTERM)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` ignores it
        yield signal.SIGHUP
