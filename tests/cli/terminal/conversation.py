"""A conversation with a process of `heedful` over a real pipe or terminal: a line, its answer, the next line."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tests.shared.patience import PATIENCE


@contextmanager
def conversation(*arguments: str, terminal: bool = False) -> Iterator[Callable[[bytes], bytes]]:
    """Start `heedful`; give a function that writes a line and waits for the line that answers it.

    At the end of the input the process must end with exit code 0 and have nothing more to say.
    """
    reader, writer = pty.openpty()[::-1] if terminal else os.pipe()
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "heedful", *arguments]
    started = subprocess.Popen(command, stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered)
    with started as process, ExitStack() as stack:
        stack.callback(process.kill)
        stack.callback(os.close, reader)
        assert process.stdout
        output = process.stdout.fileno()

        def ask(line: bytes) -> bytes:
            os.write(writer, line + b"\n")
            answer = _read_until(output, b"\n")
            assert answer.count(b"\n") == 1, f"more than one line came: {answer!r}"
            return answer.removesuffix(b"\n")

        yield ask
        if terminal:
            os.write(writer, b"\x04")
        else:
            os.close(writer)
        assert process.communicate(timeout=PATIENCE) == (b"", b"")
        assert process.returncode == 0
    if terminal:
        os.close(writer)


def _read_until(descriptor: int, wanted: bytes, seconds: float = PATIENCE) -> bytes:
    """Read from a descriptor until the bytes contain what is wanted."""
    seen, deadline = b"", time.monotonic() + seconds
    while wanted not in seen:
        assert time.monotonic() < deadline, f"nothing but {seen!r} came"
        if select.select([descriptor], [], [], 0.1)[0]:
            seen += os.read(descriptor, 1000)
    return seen
