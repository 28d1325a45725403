"""Runs commands side by side, at most `jobs` at a time, each with a time limit; a failure does not stop the others."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from heedful.base.processes import child_environment

LOOK_SECONDS = 0.1  # between two looks at what runs
GRACE_SECONDS = 60.0  # from being asked to end until being killed: time to save


@dataclass(frozen=True)
class Task:
    """A command under a name. What it prints goes to its log."""

    name: str
    command: Sequence[str]
    log: Path


class _Started:
    def __init__(self, task: Task, environment: Mapping[str, str], limit_seconds: float) -> None:
        self.task, self.limit_seconds = task, limit_seconds
        task.log.parent.mkdir(parents=True, exist_ok=True)
        with task.log.open("w") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter; a list, without a shell
                task.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
            )
        self.deadline = time.monotonic() + limit_seconds

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def too_late(self) -> bool:
        return time.monotonic() > self.deadline

    def end(self) -> None:
        """Ask it to end; kill it where it does not."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)
        self.process.kill()
        self.process.wait()

    def failure(self) -> str | None:
        """Why it failed, in a line; None where it did not."""
        if self.process.returncode == 0:
            return None
        lines = [line.strip() for line in self.task.log.read_text(errors="replace").splitlines() if line.strip()]
        return f"exit code {self.process.returncode}: {lines[-1] if lines else 'it said nothing'}"


def run_side_by_side(
    tasks: Sequence[Task],
    jobs: int,
    limit_seconds: float,
    ready: Callable[[Task, str | None], None],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run all, and call `ready` for each when it ended, with the reason where it failed.

    `environment` is added to this process's own. Whatever ends this function ends what still runs.
    """
    waiting, running = list(tasks), list[_Started]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_Started(waiting.pop(0), {**child_environment(), **(environment or {})}, limit_seconds))
            for started in [one for one in running if one.ended or one.too_late]:
                late = not started.ended
                if late:
                    started.end()
                running.remove(started)
                ready(started.task, f"not ready after {limit_seconds:,.0f} s" if late else started.failure())
            time.sleep(LOOK_SECONDS)
    finally:
        for started in running:
            started.process.terminate()
        for started in running:
            started.end()
