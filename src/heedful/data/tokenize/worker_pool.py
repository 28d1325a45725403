"""Processes that tokenize side by side, each a fresh interpreter that loads neither torch nor the user's program."""

import os
import queue
import signal
import subprocess
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

from heedful.base.errors import MachineError
from heedful.base.processes import child_environment, run_module
from heedful.data.tokenize.encoding import Encoded, Encoder
from heedful.data.tokenize.worker_protocol import (
    OUT_OF_MEMORY,
    Frame,
    encoded_of,
    encoder_frame,
    pairs_frame,
    read_frame,
    write_frame,
)

_AHEAD: Final = 2  # chunks a process that are under way
_MOST: Final = 16  # processes: one reader of text cannot feed more
_STANDARD_ERROR: Final = 2
_ENVIRONMENT: Final = {
    "TOKENIZERS_PARALLELISM": "false",
    **dict.fromkeys(("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
}


def available_cores() -> int:
    """Return the number of cores that this process may use, where the system tells."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST)


class Workers:
    """Processes that encode; use them in a `with` block, which ends them whatever happens inside."""

    def __init__(self, encoder: Encoder, count: int) -> None:
        self._encoder, self._count = encoder, count
        self._threads = ThreadPoolExecutor(count, "heedful-tokenizing")  # each talks with one process at a time
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._workers: list[_Worker] = []

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        """The processes that were started."""
        return [worker.process for worker in self._workers]

    def __enter__(self) -> "Workers":
        try:
            for _ in range(self._count):
                self._workers.append(_started(self._count))
                self._idle.put(self._workers[-1])
            frame = encoder_frame(self._encoder)
            for worker in self._workers:
                worker.send(frame)
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
        worker = self._idle.get()
        try:
            worker.send(pairs_frame(chunk))
            return encoded_of(worker.receive())
        finally:
            self._idle.put(worker)  # a dead one too: a thread that waited for it would wait for ever

    def _end(self) -> None:
        """Kill them: they hold nothing that is worth a farewell. Threads that wait for one of them wake up by it."""
        for worker in self._workers:
            worker.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.process.wait()
            worker.answers.close()
            with suppress(BrokenPipeError):  # what was not sent yet
                worker.requests.close()


# --- one of them ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Worker:
    """A process, and the pipes to it and from it."""

    process: subprocess.Popen[bytes]
    requests: BinaryIO
    answers: BinaryIO

    def send(self, frame: Frame) -> None:
        try:
            write_frame(self.requests, frame)
        except BrokenPipeError as error:
            raise self._death() from error

    def receive(self) -> Frame:
        try:
            frame = read_frame(self.answers)
        except EOFError:
            frame = None
        if frame is None:
            raise self._death()
        return frame

    def _death(self) -> Exception:
        """Return the error for a process that ended early: killed by the machine, or by a bug of ours."""
        status = self.process.wait()
        if status == OUT_OF_MEMORY:
            return MachineError(
                "A process that tokenized found no memory: free some memory and run the same command again."
            )
        if status >= 0:
            return RuntimeError(f"a tokenizing process ended with status {status}: what it wrote above says why")
        return MachineError(
            f"A process that tokenized was killed ({signal.Signals(-status).name}), most likely because memory ran "
            "out: free some memory and run the same command again."
        )


def _started(processes: int) -> _Worker:
    """A process that finds the same modules as this one; Ctrl-C on a terminal is for its parent alone.

    Its answers have a pipe of their own: whatever else is printed in it, from the start of its interpreter on, goes to
    our standard error.
    """
    read, write = os.pipe()
    answers = os.fdopen(read, "rb")
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module, two numbers
            run_module("heedful.data.tokenize.worker_main", str(write), str(processes)),
            stdin=subprocess.PIPE,
            stdout=_STANDARD_ERROR,
            pass_fds=(write,),
            env={**child_environment(), **_ENVIRONMENT},
            process_group=0,
        )
    except BaseException:
        answers.close()
        raise
    finally:
        os.close(write)  # so that the pipe ends with the process
    return _Worker(process, cast(BinaryIO, process.stdin), answers)
