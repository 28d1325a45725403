"""Command lines of Heedful in forked children of one warm process, with limits of time and memory.

Importing torch takes seconds, a fork milliseconds: the parent imports everything once and uses one thread, so that a
child can do everything that a fresh process can. A child is watched (`watching.py`): what it writes outside of its
folder, starts, or loads as code is an escape.
"""

import gc
import json
import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from benchmarks.damage.watching import Lines, watch

Result = Literal["ok", "refused", "traceback", "hang", "crash", "escape"]
_PIECE: Final = 0.005  # seconds between two looks at the children
_SLOW: Final = 1.5  # seconds
_SHOWN: Final = 4000  # characters of standard error
_CRASHED: Final = 70  # exit code of a child that failed outside of Heedful


@dataclass(frozen=True)
class Limits:
    """What one input may use."""

    seconds: float = 20.0  # on the clock: a machine that is shared may be slow
    memory: int = 2 << 30  # bytes above a bare import


class Outcome(NamedTuple):
    """How the command lines of one input ended."""

    result: Result
    code: int  # of the last command line; negative for a signal
    seconds: float  # of a core
    peak: int  # bytes above a bare import
    said: str  # the end of standard error
    lines: frozenset[tuple[str, int]] = frozenset()  # of the sources that no input before it reached, if looked for


@dataclass(frozen=True)
class Work:
    """One input: what makes it in a folder, and the command lines that read it, which end with the first failure."""

    name: str
    make: Callable[[Path], Sequence[Sequence[str]]]


class Runner:
    """Runs inputs, each in a child and a folder of its own."""

    def __init__(self, home: Path, limits: Limits, lines: Lines | None = None) -> None:
        self._home, self._limits, self._lines = home, limits, lines
        gc.collect()
        gc.freeze()  # so that no collection in a child copies the pages of everything
        self._bare = 0
        [(_, bare)] = self._side_by_side([Work("bare", lambda folder: ())], home, 1)
        self._bare = bare.peak

    def run(self, work: Iterable[Work], processes: int = 1) -> Iterator[tuple[str, Outcome]]:
        """Yield names and outcomes as they end.

        An input that is late or slow is run once more at the end, and counts then: the machine may have been busy, and
        looking at lines takes time too.
        """
        again: list[Work] = []
        slow = float("inf") if self._lines is None else _SLOW
        for item, outcome in self._side_by_side(work, self._home, processes):
            if outcome.result == "hang" or outcome.seconds > slow:
                again.append(item)
            else:
                yield item.name, outcome
        self._lines = None
        for item, outcome in self._side_by_side(again, self._home / "again", 1):
            yield item.name, outcome

    def _side_by_side(self, work: Iterable[Work], home: Path, processes: int) -> Iterator[tuple[Work, Outcome]]:
        waiting, running = iter(work), dict[int, _Child]()
        exhausted = False
        while running or not exhausted:
            while not exhausted and len(running) < processes:
                item = next(waiting, None)
                if item is None:
                    exhausted = True
                    break
                child = self._start(item, home / re.sub(r"[:.]", "-", item.name))
                running[child.process] = child
            time.sleep(_PIECE)
            for process, child in list(running.items()):
                outcome = child.look(self._limits, self._bare)
                if outcome is not None:
                    del running[process]
                    if self._lines is not None:
                        self._lines.known |= outcome.lines
                    yield child.item, outcome

    def _start(self, item: Work, folder: Path) -> "_Child":
        folder.mkdir(parents=True)
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process == 0:
            _make_and_run(item, folder, self._limits, self._lines)
        with suppress(OSError):  # the child does it too: whoever comes first
            os.setpgid(process, process)
        return _Child(item, process, folder, time.monotonic())


@dataclass
class _Child:
    item: Work
    process: int
    folder: Path
    began: float
    late: bool = False

    def look(self, limits: Limits, bare: int) -> Outcome | None:
        """Return the outcome of a child that has ended, and end one that is late."""
        found, _ = os.waitpid(self.process, os.WNOHANG)
        if not found:
            if time.monotonic() - self.began > limits.seconds and not self.late:
                self.late = True
                os.killpg(self.process, signal.SIGKILL)
            return None
        said, seen, used = (self._left(suffix) for suffix in (".err", ".seen", ".used"))
        watched = json.loads(seen) if seen else {"escapes": [], "lines": []}
        code, seconds, memory = json.loads(used) if used else (_CRASHED, limits.seconds, 0)
        said += "".join(f"\nescape: {escape}" for escape in watched["escapes"])
        shutil.rmtree(self.folder, ignore_errors=True)
        peak = max(0, memory - bare)
        result = _result(code, said, self.late, peak, limits)
        if watched["escapes"]:
            result = "escape"
        lines = frozenset((file, line) for file, line in watched["lines"])
        return Outcome(result, code, seconds, peak, said[-_SHOWN:], lines)

    def _left(self, suffix: str) -> str:
        """Return what the child wrote next to its folder, and remove it."""
        path = self.folder.with_suffix(suffix)
        text = path.read_text(errors="replace") if path.exists() else ""
        path.unlink(missing_ok=True)
        return text


def _result(code: int, said: str, late: bool, peak: int, limits: Limits) -> Result:
    if late:
        return "hang"
    if code < 0 or peak > limits.memory or code == _CRASHED:
        return "crash"
    if "Traceback" in said or "panicked at" in said or "Exception ignored" in said:
        return "traceback"
    if code == 0:
        return "ok"
    told = re.findall(r"^heedful: (?:error|\d+ errors):", said, re.MULTILINE)
    return "refused" if code in (2, 3) and len(told) == 1 else "traceback"


def _make_and_run(item: Work, folder: Path, limits: Limits, lines: Lines | None) -> None:
    """Make the input, and run its command lines in a process of their own, so that making it costs nothing there."""
    try:
        os.setpgid(0, 0)
        commands = item.make(folder)
        process = os.fork()
        if process == 0:
            _be_child(commands, folder, limits, lines)
        _, status, used = os.wait4(process, 0)
        code = os.waitstatus_to_exitcode(status)
        folder.with_suffix(".used").write_text(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _be_child(commands: Sequence[Sequence[str]], folder: Path, limits: Limits, lines: Lines | None) -> None:
    """Run command lines within limits; never returns."""
    code = _CRASHED
    try:
        _redirect(folder)
        os.chdir(folder)
        os.environ["HEEDFUL_CACHE"] = str(folder / "cache")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
        most = limits.memory + _address_space()
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with watch(folder, lines):
            code = _run(commands)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _address_space() -> int:
    """Return how many bytes of data this process has reserved already, which count for its limit."""
    found = re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


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
    opened = os.open(os.devnull, os.O_WRONLY)  # what is answered is not looked at
    os.dup2(opened, 1)
    os.close(opened)
    opened = os.open(folder.with_suffix(".err"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(opened, 2)
    os.close(opened)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the rest of the process
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
