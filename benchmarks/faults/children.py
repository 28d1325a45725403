"""Forked children of one warm process: importing torch takes seconds, a fork milliseconds.

The parent only imports, and uses one thread, so that a child can do everything that a fresh process can.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NamedTuple, NoReturn

_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG of Linux
Send = Callable[..., None]  # sends a message, given as keywords, to the parent
Work = Callable[[Send], None]


class Ended(NamedTuple):
    """What a child sent, and how it ended."""

    messages: list[dict[str, Any]]
    code: int  # negative for a signal

    def last(self, key: str) -> Any:
        """Return the value of a key in the last message that has it."""
        return next((message[key] for message in reversed(self.messages) if key in message), None)


class Child:
    """A forked process that works, and sends messages meanwhile."""

    def __init__(self, work: Work) -> None:
        read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.process = os.fork()
        if self.process == 0:
            os.close(read)
            _be_child(work, write)
        os.close(write)
        self._pipe, self._rest = read, b""

    def fileno(self) -> int:
        """The pipe, for `select`."""
        return self._pipe

    def receive(self) -> list[dict[str, Any]] | None:
        """Return the messages that have come, waiting for some; None if there will be no more."""
        data = os.read(self._pipe, 1 << 16)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self, signals: Sequence[tuple[float, signal.Signals]] = ()) -> Ended:
        """Wait for the end, and send signals on the way, each after a number of seconds."""
        messages: list[dict[str, Any]] = []
        waiting, began = sorted(signals, reverse=True), time.monotonic()
        while True:
            patience = max(0.0, began + waiting[-1][0] - time.monotonic()) if waiting else None
            if not select.select([self], [], [], patience)[0]:
                os.kill(self.process, waiting.pop()[1])
                continue
            received = self.receive()
            if received is None:
                break
            messages += received
        os.close(self._pipe)
        return Ended(messages, os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1]))


def run_in_child(work: Work, signals: Sequence[tuple[float, signal.Signals]] = ()) -> Ended:
    """Do some work in a child, and wait for its end."""
    return Child(work).end(signals)


def warm_up(work: Work) -> None:
    """Import what a child imports when it does some work."""

    def tell(send: Send) -> None:
        before = {*sys.modules}
        work(send)
        send(imported=[name for name in sys.modules if name not in before])

    ended = run_in_child(tell)
    assert ended.code == 0, ended.last("trace")
    for name in ended.last("imported"):
        with suppress(ImportError):  # made by other modules
            import_module(name)


def run_side_by_side(works: Sequence[Work], processes: int) -> Iterator[dict[str, Any]]:
    """Do all works, each in a child, at most so many at a time; yield their messages as they come."""
    waiting, running = list(reversed(works)), list[Child]()
    while waiting or running:
        while waiting and len(running) < processes:
            running.append(Child(waiting.pop()))
        for child in select.select(running, [], [])[0]:
            messages = child.receive()
            if messages is not None:
                yield from messages
                continue
            running.remove(child)
            code = child.end().code
            if code:
                yield {"problem": f"a worker ended with {code}"}


def _be_child(work: Work, pipe: int) -> NoReturn:
    def send(**message: Any) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(pipe, data) :]

    code = 0
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        work(send)
    except KeyboardInterrupt:  # a signal may come before the work begins, or when it has ended
        send(stopped=True)
    except BaseException as error:
        send(failed=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        code = 1
    finally:
        os._exit(code)
