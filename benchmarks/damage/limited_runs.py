"""Command lines of Heedful in forked children of one warm process, with limits of time and memory.

Importing torch takes seconds, a fork milliseconds: the parent imports everything once and uses one thread, so that a
child can do everything that a fresh process can.
"""

import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

Result = Literal["ok", "refused", "traceback", "hang", "crash"]
_PIECE: Final = 0.01  # seconds between two looks at the children
_SHOWN: Final = 4000  # characters of standard error
_CRASHED: Final = 70  # exit code of a child that failed outside of Heedful


@dataclass(frozen=True)
class Limits:
    """What one input may use."""

    seconds: float = 20.0
    memory: int = 2 << 30  # bytes


class Outcome(NamedTuple):
    """How the command lines of one input ended."""

    result: Result
    code: int  # of the last command line; negative for a signal
    seconds: float
    peak: int  # bytes
    said: str  # the end of standard error


@dataclass(frozen=True)
class Work:
    """One input: what makes it in a folder, and the command lines that read it, which end with the first failure."""

    name: str
    make: Callable[[Path], Sequence[Sequence[str]]]


def run_all(work: Iterable[Work], home: Path, limits: Limits, processes: int = 1) -> Iterator[tuple[str, Outcome]]:
    """Run all inputs, each in a child and a folder of its own; yield their names and outcomes as they end.

    An input that is late is run once more at the end, by itself, and counts then: the machine may have been busy.
    """
    late: list[Work] = []
    for item, outcome in _run_side_by_side(work, home, limits, processes):
        if outcome.result == "hang":
            late.append(item)
        else:
            yield item.name, outcome
    for item, outcome in _run_side_by_side(late, home / "late", limits, 1):
        yield item.name, outcome


def _run_side_by_side(
    work: Iterable[Work], home: Path, limits: Limits, processes: int
) -> Iterator[tuple[Work, Outcome]]:
    waiting, running = iter(work), dict[int, _Child]()
    exhausted = False
    while running or not exhausted:
        while not exhausted and len(running) < processes:
            item = next(waiting, None)
            if item is None:
                exhausted = True
                break
            child = _start(item, home / item.name.replace(":", "-"), limits)
            running[child.process] = child
        time.sleep(_PIECE)
        for process, child in list(running.items()):
            outcome = child.look(limits)
            if outcome is not None:
                del running[process]
                yield child.item, outcome


@dataclass
class _Child:
    item: Work
    process: int
    folder: Path
    began: float
    late: bool = False

    def look(self, limits: Limits) -> Outcome | None:
        """Return the outcome of a child that has ended, and end one that is late."""
        found, status, used = os.wait4(self.process, os.WNOHANG)
        seconds = time.monotonic() - self.began
        if not found:
            if seconds > limits.seconds and not self.late:
                self.late = True
                os.kill(self.process, signal.SIGKILL)
            return None
        code = os.waitstatus_to_exitcode(status)
        log = self.folder.with_suffix(".err")
        said = log.read_text(errors="replace") if log.exists() else ""
        peak = used.ru_maxrss * 1024
        for path in (log, self.folder.with_suffix(".out")):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        return Outcome(_result(code, said, self.late, peak, limits), code, seconds, peak, said[-_SHOWN:])


def _result(code: int, said: str, late: bool, peak: int, limits: Limits) -> Result:
    if late:
        return "hang"
    if code < 0 or peak > limits.memory or code == _CRASHED:
        return "crash"
    if "Traceback" in said or "panicked at" in said:
        return "traceback"
    if code == 0:
        return "ok"
    told = re.findall(r"^heedful: (?:error|\d+ errors):", said, re.MULTILINE)
    return "refused" if code in (2, 3) and len(told) == 1 else "traceback"


def _start(item: Work, folder: Path, limits: Limits) -> _Child:
    folder.mkdir(parents=True)
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        _be_child(item, folder, limits)
    return _Child(item, process, folder, time.monotonic())


def _be_child(item: Work, folder: Path, limits: Limits) -> None:
    """Make the input and run its command lines; never returns."""
    code = _CRASHED
    try:
        commands = item.make(folder)
        _redirect(folder)
        os.chdir(folder)
        os.environ["HEEDFUL_CACHE"] = str(folder / "cache")
        resource.setrlimit(resource.RLIMIT_DATA, (limits.memory, limits.memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = _run(commands)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _run(commands: Sequence[Sequence[str]]) -> int:
    from heedful.cli.main import run

    code = 0
    for arguments in commands:
        print("$ heedful", *arguments, file=sys.stderr, flush=True)
        try:
            code = run(arguments)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        except BaseException:
            traceback.print_exc()
            return 1
        if code:
            break
    return code


def _redirect(folder: Path) -> None:
    """Send standard output and standard error to files next to the folder, and have nothing on standard input."""
    for descriptor, suffix in ((1, ".out"), (2, ".err")):
        opened = os.open(folder.with_suffix(suffix), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the rest of the process
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
