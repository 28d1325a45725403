"""Says once in a run when other processes compete for the machine's cores."""

import time
from collections.abc import Callable
from typing import Final

from heedful.base.cores import CONTENDED, CoreClock

SECONDS: Final = 10.0  # between two readings: long enough that a short burst of other work is not reported


class ContentionNotice:
    """Watches how long the threads of a run wait for a core, and says so if that costs much."""

    def __init__(
        self,
        say: Callable[[str], None],
        threads: int,
        read: Callable[[], CoreClock | None] = CoreClock.read,
    ) -> None:
        self._say, self._threads, self._read = say, threads, read
        self._since = read()

    def look(self) -> None:
        """Compare with the last reading, if it was some seconds ago."""
        if self._since is None or time.monotonic() - self._since.at < SECONDS:
            return  # reading opens a file per thread: too much for every step
        now = self._read()
        if now is None or now.at - self._since.at < SECONDS:
            return
        share = now.share_waited_since(self._since, self._threads)
        self._since = now
        if share > CONTENDED:
            self._say(
                f"Other processes use this machine's cores: training waited for one {share:.0%} of the last "
                f"{SECONDS:.0f} seconds. It continues with what is left."
            )
            self._since = None  # once is enough
