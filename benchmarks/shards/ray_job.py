"""A batch job on a local cluster of Ray, one of whose actors is killed half-way."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class OnRay:
    """What happened: how many actors there were, when one was killed, and how the command ended."""

    actors: int
    there: int  # parts that were there when an actor was killed
    code: int
    said: str
    seconds: float


def kill_an_actor(words: Sequence[str], folder: Path, after: int, actors: int, patience: float) -> OnRay:
    """Run a command with --ray=local; kill an actor once so many parts are there, and so many actors have begun."""
    began = time.monotonic()
    command = [sys.executable, "-P", "-m", "heedful", *words, "--output", str(folder), "--ray=local"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:

        def there() -> int:
            return len([*folder.glob("part-*")])

        found = list[int]()
        while process.poll() is None and not (there() >= after and len(found) >= actors):
            found = [*actors_below(process.pid)]
            time.sleep(0.02)
            if time.monotonic() > began + patience:
                process.kill()
        at = there()
        if found:
            os.kill(found[0], signal.SIGKILL)
        _, said = process.communicate(timeout=patience)
    return OnRay(len(found), at, process.returncode, said, time.monotonic() - began)


def actors_below(process: int) -> Iterator[int]:
    """Yield the processes of actors that a process has started, itself or through others."""
    parents = {
        int(name): int(text.rpartition(")")[2].split()[1])
        for name, text in _of_processes("stat", lambda data: data.decode(errors="replace"))
    }
    for name, command in _of_processes("cmdline", lambda data: data.decode(errors="replace")):
        above: int | None = int(name)
        while above is not None and above != process:
            above = parents.get(above)
        if above == process and "ray::Worker" in command:
            yield int(name)


def _of_processes(file: str, read: Callable[[bytes], str]) -> Iterator[tuple[str, str]]:
    for path in Path("/proc").glob(f"[0-9]*/{file}"):
        try:
            yield path.parent.name, read(path.read_bytes())
        except OSError:  # it has just ended
            continue
