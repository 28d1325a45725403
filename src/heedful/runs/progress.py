"""Progress of a run: one live line on a terminal or in a notebook, plain lines elsewhere, metrics and TensorBoard."""

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Final, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from heedful.base.columns import printable
from heedful.base.cores import CONTENDED, CoreClock
from heedful.base.errors import HeedfulError
from heedful.base.files import append_line, sync, tolerate_closed_reader, write_bytes
from heedful.pages.report.log import INSTRUMENTS as INSTRUMENTS
from heedful.pages.report.log import METRICS as METRICS
from heedful.pages.report.log import SAMPLES, read_log, sound_lines
from heedful.pages.report.tables import duration as duration
from heedful.training.trainer import StepMetrics

_MOST_LINES: Final = 100  # in a notebook: every update sends all of them
_NOT_RECORDED: Final = ("step", "steps", "seconds_left")  # of the metrics of a step
_STAYS_EVERY: Final = 60.0  # seconds between two progress lines that stay on a terminal
_MUCH_WAITING: Final = 0.05  # share of the time from which waiting for data is worth a word


class RunProgress:
    """Shows training metrics and validations on standard error, and appends them to the run's metrics file.

    A run continues when nobody reads standard error any more: its pipe was closed, or its terminal hung up. It
    continues, too, when the disk is full that its metrics or messages go to, or when its logs cannot be read.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._notebook = NotebookLines() if console is None and in_notebook() else None
        self.console = console or Console(file=tolerate_closed_reader(sys.stderr, full_disk=True), highlight=False)
        live = self.console.is_terminal and not self._notebook
        self._live = Live(console=self.console, transient=True, auto_refresh=False) if live else None
        self._stayed = time.monotonic()
        self._metrics: Path | None = None
        self._instruments: Path | None = None
        self._board: Any = None
        self._lost = False  # something could not be recorded
        self._uncut: dict[Path, int] = {}  # logs that still have what was recorded after this step
        self._thread_hook: Callable[[threading.ExceptHookArgs], object] | None = None  # before ours
        self._tokens = "tokens"

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
        if self._notebook:
            self._notebook.replace("")
        with self._board_faults():
            if self._board:
                self._board.close()
        if self._thread_hook is not None:
            threading.excepthook = self._thread_hook

    def begin(self, run: Path, step: int, tokens: str = "tokens") -> None:
        """Record from this step on; drop what an interrupted run recorded after it. `tokens` are what speed counts."""
        self._tokens = tokens
        self._metrics, self._instruments = run / METRICS, run / INSTRUMENTS
        with suppress(ImportError):  # the `track` extra is not installed
            from torch.utils.tensorboard import SummaryWriter

            threading.excepthook, self._thread_hook = self._thread_ended, threading.excepthook
            with self._board_faults(), _nameless_host():
                self._board = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)
        for recorded in (self._metrics, self._instruments, run / SAMPLES):
            self._cut(recorded, step)

    def _cut(self, log: Path, step: int) -> None:
        """Drop what a log has after a step, which is recorded again; try it later if it cannot be read or written."""
        self._uncut.pop(log, None)
        try:
            lines = sound_lines(log, needed=True)
            kept = b"".join(line + b"\n" for line, entry in lines if entry["step"] <= step)
            if log.exists() and log.stat().st_size != len(kept):
                write_bytes(log, kept)
        except (HeedfulError, OSError) as error:
            self._uncut[log] = step
            self._lose(log, error)

    def say(self, message: str) -> None:
        """Print a line above the live one; data in it cannot act on the terminal."""
        message = printable(message)
        if self._notebook:
            self._notebook.say(message)
        else:
            self.console.print(Text(message), soft_wrap=True)  # neither markup nor names of emoji

    @contextmanager
    def showing(self, work: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show on the live line how much of some work is done: "validating 400 / 1,014"."""
        finished = 0

        def advance(count: int) -> None:
            nonlocal finished
            finished += count
            self._show(f"{work} {finished:,} / {total:,}")

        advance(0)
        yield advance

    def _show(self, line: str) -> None:
        line = printable(line)
        if self._notebook:
            self._notebook.replace(line)
        elif self._live:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def step_metrics(self, metrics: StepMetrics, logged: bool) -> None:
        """Show the metrics; record them too if they are `logged`."""
        line, now = describe(metrics, self._tokens), time.monotonic()
        self._show(line)
        if logged and not self._notebook and (self._live is None or now - self._stayed >= _STAYS_EVERY):
            self._stayed = now
            self.say(line)
        if logged:
            values = asdict(metrics)
            self._record(metrics.step, "train", {k: v for k, v in values.items() if k not in _NOT_RECORDED})

    def validation(self, step: int, scores: Mapping[str, float], best: bool) -> None:
        """Show and record the scores of a validation."""
        if not scores:
            return
        words = "  ".join(f"{name} {score:.4g}" for name, score in scores.items())
        self.say(f"valid at step {step:,}:  {words}{'  (best)' if best else ''}")
        self._record(step, "valid", dict(scores))

    def samples(self, step: int, samples: Sequence[tuple[str, str, str]]) -> None:
        """Record what the model said to a few inputs of a validation."""
        if self._metrics and samples:
            names = ("input", "reference", "output")
            told = [dict(zip(names, one, strict=True)) for one in samples]
            self._append(self._metrics.with_name(SAMPLES), {"step": step, "samples": told})

    def record(self, step: int, values: Mapping[str, Any]) -> None:
        """Record something else with the metrics of a step, if there is anything; it has a `part`."""
        if self._metrics and values:
            self._append(self._metrics, {"step": step, **values})

    def measured(self, record: Mapping[str, Any]) -> None:
        """Record a measurement of the instruments."""
        if self._instruments:
            self._append(self._instruments, record)

    def _record(self, step: int, part: str, values: dict[str, Any]) -> None:
        if self._metrics:
            finite = {k: v if not isinstance(v, float) or math.isfinite(v) else None for k, v in values.items()}
            self._append(self._metrics, {"step": step, "part": part, **finite})
        with self._board_faults():
            for name, value in values.items() if self._board else ():
                self._board.add_scalar(f"{part}/{name}", value, step)

    @contextmanager
    def _board_faults(self) -> Iterator[None]:
        """Go on without TensorBoard where its file cannot be written, and say so once."""
        try:
            yield
        except OSError as error:
            board, self._board = self._board, None
            with suppress(OSError):
                if board:
                    board.close()  # waits for its thread
            if self._metrics:
                self._lose(self._metrics.with_name("tensorboard"), error)

    def _thread_ended(self, ended: threading.ExceptHookArgs) -> None:
        """Show the traceback of a thread, but for that which writes TensorBoard's file: its error is raised above."""
        if not type(ended.thread).__module__.startswith("tensorboard.") and self._thread_hook is not None:
            self._thread_hook(ended)

    def sync(self) -> None:
        """Wait until everything recorded is on the disk, so that a checkpoint has its logs even if power is lost."""
        for file in (self._metrics, self._instruments, self._metrics and self._metrics.with_name(SAMPLES)):
            with suppress(OSError):  # there is none yet, or the disk failed, which was said when it was written
                if file:
                    sync(file)
        with suppress(OSError):
            if self._metrics:
                sync(self._metrics.parent)

    def _append(self, file: Path, values: Mapping[str, Any]) -> None:
        if file in self._uncut:
            self._cut(file, self._uncut[file])
        if file in self._uncut:
            return  # appended to, it would have steps twice
        try:
            append_line(file, json.dumps(values))
        except (HeedfulError, OSError) as error:
            self._lose(file, error)

    def _lose(self, file: Path, error: Exception) -> None:
        """Say once that something cannot be recorded."""
        if not self._lost:
            reason = getattr(error if isinstance(error, OSError) else error.__cause__, "strerror", None)
            why = reason or str(error).removeprefix(f"{file}: ").rstrip(".")
            self.say(f"{file} cannot be written ({why}): training continues without recording metrics")
        self._lost = True


@contextmanager
def _nameless_host() -> Iterator[None]:
    """Let TensorBoard name its files after no machine inside the block: it always adds the name of the host."""
    files: Any = import_module("tensorboard.summary.writer.event_file_writer")
    before = files.socket
    files.socket = SimpleNamespace(gethostname=lambda: "run")
    try:
        yield
    finally:
        files.socket = before


def describe(metrics: StepMetrics, tokens: str = "tokens") -> str:
    """Return a line about the last steps: step, epoch, loss, learning rate, speed, time left, and what is unusual.

    `tokens` are what speed counts: tokens of a side, or patches.
    """
    unit = "tok" if tokens.endswith("tokens") else tokens
    waiting = f"  waiting for data {metrics.data_wait:.0%}" if metrics.data_wait >= _MUCH_WAITING else ""
    skipped = f"  skipped updates {metrics.skipped}" if metrics.skipped else ""
    return (
        f"step {metrics.step:,}/{metrics.steps:,}  epoch {metrics.epoch + 1:,}  loss {metrics.loss:.3f}  "
        f"lr {metrics.learning_rate:.1e}  {metrics.tokens_per_second:,.0f} {unit}/s  "
        f"{duration(metrics.seconds_left)} left{waiting}{skipped}"
    )


def recorded_metrics(run: Path, part: str) -> list[dict[str, Any]]:
    """Return what a run recorded of a part, "train" or "valid", in order; nothing without a metrics file."""
    entries = [entry for entry in read_log(run / METRICS) if entry["part"] == part]
    return [{name: value for name, value in entry.items() if name != "part"} for entry in entries]


def recorded_instruments(run: Path) -> list[dict[str, Any]]:
    """Return what the instruments of a run recorded, in order; nothing without their file."""
    return read_log(run / INSTRUMENTS)


# --- notebooks ----------------------------------------------------------------------------------------------------


def in_notebook() -> bool:
    """Whether this process runs the cells of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__)


class NotebookLines:
    """Lines that stay, and below them one that is replaced."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._live = ""
        self._output: Any = None

    def say(self, line: str) -> None:
        """Add a line."""
        self._lines = [*self._lines, line][-_MOST_LINES:]
        self._show()

    def replace(self, line: str) -> None:
        """Replace the last line, or remove it if the new one is empty."""
        self._live = line
        self._show()

    def _show(self) -> None:
        text = {"text/plain": "\n".join([*self._lines, *([self._live] if self._live else [])])}
        if self._output is None:
            self._output = import_module("IPython.display").display(text, raw=True, display_id=True)
        else:
            self._output.update(text, raw=True)


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
