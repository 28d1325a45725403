"""The cores that this process may use, how its threads wait for each other, and whether other work competes for them.

PyTorch computes an operation with several threads, which wait for each other at its end. By default a thread waits by
spinning, for milliseconds: on a core that another process also wants, it spins away the time that the thread it waits
for needs, and a machine with one busy neighbour trains twenty times slower. Threads here spin for some tens of
microseconds, as long as the usual gap between two operations, and then sleep.
"""

import math
import os
import sys
import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

SPINS: Final = "1000"  # iterations of libgomp's waiting loop before it sleeps: 15 to 60 microseconds
_WAITING: Final = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # a user's own choice is respected
_CGROUPS: Final = Path("/sys/fs/cgroup")
_THREADS: Final = Path("/proc/self/task")
CONTENDED: Final = 0.2  # share of the time spent waiting for a core, above which a run says so


def limit_spinning(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let waiting threads sleep soon; has no effect once torch is imported, as OpenMP reads its settings only once."""
    if "torch" not in sys.modules and not any(name in environment for name in _WAITING):
        environment["GOMP_SPINCOUNT"] = SPINS


def usable_cores(cgroups: Path = _CGROUPS) -> int:
    """Return the number of cores that this process may keep busy: by affinity, and by the quota of its container."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroups)
    return affinity if quota is None else max(1, min(affinity, math.ceil(quota)))


def _quota(cgroups: Path) -> float | None:
    """Return the cores of a container's quota, by version 2 or 1 of control groups; None if there is no limit."""
    try:
        if (cgroups / "cpu.max").exists():
            allowed, period = (cgroups / "cpu.max").read_text().split()
        else:
            allowed, period = (
                (cgroups / "cpu" / name).read_text().strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            )
        return int(allowed) / int(period) if int(allowed) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # no Linux, no quota ("max"), or nothing that can be read
        return None


@dataclass(frozen=True)
class CoreClock:
    """How long all threads of this process had waited for a free core, and when that was read, in seconds."""

    waited: float
    at: float

    @classmethod
    def read(cls, threads: Path = _THREADS) -> Self | None:
        """Read the kernel's count; None where it does not keep one."""
        waited = 0
        try:
            for thread in threads.iterdir():
                waited += int((thread / "schedstat").read_text().split()[1])
        except (OSError, ValueError, IndexError):  # no Linux, or a thread that has just ended
            return None
        return cls(waited / 1e9, time.monotonic())

    def share_waited_since(self, earlier: Self, threads: int) -> float:
        """Return the share of the time since an earlier reading that each of so many threads waited for a core."""
        passed = self.at - earlier.at
        return max(0.0, self.waited - earlier.waited) / (passed * threads) if passed > 0 else 0.0
