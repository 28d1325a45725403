"""Processes that tokenize side by side, each a fresh interpreter that loads neither torch nor the user's program."""

import os
import queue
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, cast

from heedful.data.encoding import Encoded, Encoder
from heedful.data.wire import Frame, encoded_of, encoder_frame, pairs_frame, read_frame, write_frame
from heedful.errors import MachineError

_AHEAD: Final = 2  # chunks a process that are under way
_MOST: Final = 16  # processes: one reader of text cannot feed more
_ENVIRONMENT: Final = {
    "TOKENIZERS_PARALLELISM": "false",
    **dict.fromkeys(("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
}

_Process = subprocess.Popen[bytes]


def available_cores() -> int:
    """How many cores this process may use, where the system tells."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST)


class Workers:
    """So many processes with one encoder; use them in a `with` block, which ends them whatever happens inside."""

    def __init__(self, encoder: Encoder, count: int) -> None:
        self._encoder, self._count = encoder, count
        self._threads = ThreadPoolExecutor(count, "heedful-tokenizing")  # each talks with one process at a time
        self._idle: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        self.processes: list[_Process] = []

    def __enter__(self) -> "Workers":
        try:
            for _ in range(self._count):
                self.processes.append(_started())
                self._idle.put(self.processes[-1])
            frame = encoder_frame(self._encoder)
            for process in self.processes:
                _send(process, frame)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def map(self, chunks: Iterable[Sequence[tuple[str, str]]]) -> Iterator[Encoded]:
        """Encode chunks, in their order; few of them are in memory at once."""
        waiting: deque[Future[Encoded]] = deque()
        for chunk in chunks:
            waiting.append(self._threads.submit(self._encode, chunk))
            if len(waiting) > _AHEAD * self._count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _encode(self, chunk: Sequence[tuple[str, str]]) -> Encoded:
        process = self._idle.get()
        try:
            _send(process, pairs_frame(chunk))
            return encoded_of(_received(process))
        finally:
            self._idle.put(process)  # a dead one too: a thread that waited for it would wait for ever

    def _end(self) -> None:
        """Kill them: they hold nothing that is worth a farewell. Threads that wait for one of them wake up by it."""
        for process in self.processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self.processes:
            process.wait()
            for pipe in _pipes(process):
                with suppress(BrokenPipeError):  # what was not sent yet
                    pipe.close()


def _started() -> _Process:
    """A process that finds the same modules as this one; Ctrl-C on a terminal is for its parent alone."""
    places = [place or str(Path.cwd()) for place in sys.path]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "heedful.data.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(places)},
        process_group=0,
    )


def _pipes(process: _Process) -> tuple[BinaryIO, BinaryIO]:
    assert process.stdin is not None
    assert process.stdout is not None
    return cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout)


def _send(process: _Process, frame: Frame) -> None:
    try:
        write_frame(_pipes(process)[0], frame)
    except BrokenPipeError as error:
        raise _death(process) from error


def _received(process: _Process) -> Frame:
    try:
        frame = read_frame(_pipes(process)[1])
    except EOFError:
        frame = None
    if frame is None:
        raise _death(process)
    return frame


def _death(process: _Process) -> Exception:
    """What to say of a process that ended before its time: killed by the machine, or stopped by a mistake of ours."""
    status = process.wait()
    if status >= 0:
        return RuntimeError(f"a tokenizing process ended with status {status}: what it wrote above says why")
    return MachineError(
        f"A process that tokenized was killed ({signal.Signals(-status).name}), most likely because memory ran out: "
        "free some memory and run the same command again."
    )
