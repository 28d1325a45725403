"""What other processes use of the machine while something is timed."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

QUIET = 0.1  # cores that others may use next to a measurement


class Others:
    """What other processes use of the machine while a block runs: a number of cores."""

    cores = 0.0


@contextmanager
def watch_others() -> Iterator[Others]:
    """Measure what processes use that this one did not start; on systems without /proc nothing is measured."""
    found = Others()
    before = _used()
    began = time.perf_counter()
    try:
        yield found
    finally:
        seconds = max(1e-3, time.perf_counter() - began)
        found.cores = max(0.0, (_used() - before) / seconds)


def _used() -> float:
    """Return the seconds of all cores that were not idle, less those of this process and those that it started."""
    facts = Path("/proc/stat")
    if not facts.exists():
        return 0.0
    user, nice, system, _, _, *more = (int(part) for part in facts.read_text().split("\n", 1)[0].split()[1:])
    busy = user + nice + system + sum(more[:3])  # interrupts, and what the host took for other machines
    own = os.times()
    ours = own.user + own.system + own.children_user + own.children_system
    tick = os.sysconf("SC_CLK_TCK")
    return busy / tick - ours - sum(_ticks_of(child) for child in _children(os.getpid())) / tick


def _children(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []


def _ticks_of(process: str) -> int:
    try:
        facts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended: its time is that of an ended child now
        return 0
    return sum(int(part) for part in facts[11:15])
