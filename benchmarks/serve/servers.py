"""Servers in processes of their own, and what they hold."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from heedful.base.processes import child_environment, run_module

START = 120.0  # seconds that loading may take
_PLACE = re.compile(r"serving on http://127\.0\.0\.1:(\d+) ")


class Server:
    """A process that serves; `with` ends it."""

    def __init__(self, module: str, arguments: Sequence[str], threads: int) -> None:
        environment = child_environment("benchmarks") | {"OMP_NUM_THREADS": str(threads)}
        command = run_module(module, *arguments, "--port", "0")
        self._process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        self.port = self._read_port()

    @classmethod
    def of_ours(cls, model: Path, *options: str, threads: int = 2) -> Self:
        return cls("heedful", ["serve", str(model), *options], threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _read_port(self) -> int:
        assert self._process.stderr is not None
        until, said = time.monotonic() + START, ""
        while time.monotonic() < until and (line := self._process.stderr.readline()):
            said += line
            if found := _PLACE.search(line):
                return int(found[1])
        self._process.kill()
        sys.exit(f"a server did not start: {said}")

    # --- what it holds ---

    @property
    def memory(self) -> int:
        """Bytes in memory."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def threads(self) -> int:
        """Number of threads."""
        return len(list(Path(f"/proc/{self._process.pid}/task").iterdir()))

    @property
    def files(self) -> int:
        """Number of open files and connections."""
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    def metric(self, name: str) -> float:
        """A number of `/metrics`, summed over its labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}[{{ ]", line))
