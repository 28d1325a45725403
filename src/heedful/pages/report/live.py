"""The report of a run that goes on: written again after validations, and once at its end."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from heedful.base.files import write_bytes
from heedful.pages.report.page import PAGE, report_page
from heedful.pages.report.record import METRICS, read_run

_SHARE: Final = 0.02  # of the time of a run that its report may take
_LEAST: Final = 1.0  # seconds between two versions


class LiveReport:
    """Writes RUN/report.html. What goes wrong never ends the run: it is said once."""

    def __init__(self, run: Path, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._run, self._say, self._clock = run, say, clock
        self._due = clock() + _LEAST
        self._failed = False

    @property
    def path(self) -> Path:
        """File of the report."""
        return self._run / PAGE

    def rewrite(self) -> None:
        """Write the report of a run that goes on, unless the last one is hardly older."""
        if self._clock() >= self._due:
            began = self._clock()
            self._write(running=True)
            now = self._clock()
            self._due = now + max(_LEAST, (now - began) / _SHARE)

    def finish(self) -> bool:
        """Write the report of a run that has ended; return whether there is one."""
        return self._write(running=False)

    def _write(self, running: bool) -> bool:
        try:
            if not (self._run / METRICS).exists():
                return False
            write_bytes(self.path, report_page([read_run(self._run, running)]).encode())
        except Exception as error:  # whatever it is, the run is worth more
            if not self._failed:
                self._say(f"{self.path} cannot be written ({_reason(error)}): training continues without a report")
            self._failed = True
            return False
        return True


def _reason(error: Exception) -> str:
    cause = error.__cause__
    return getattr(cause, "strerror", None) or (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
