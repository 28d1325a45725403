"""What verbs write: results on standard output or in a file, and a progress bar on standard error."""

import fcntl
import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from heedful.base.columns import printable
from heedful.base.errors import UserError
from heedful.base.files import tolerate_closed_reader, writing
from heedful.cli import messages

STANDARD_OUTPUT: Final = Path("-")

Line = str | Mapping[str, object]  # what is written as it is, or as a JSON object
Progress = AbstractContextManager[Callable[[int], None]]  # gives a function that counts what has been done

# --- lines --------------------------------------------------------------------------------------------------------


@contextmanager
def text_writer(output: Path | None = None) -> Iterator[Callable[[str], None]]:
    """Give a function that writes a text: to standard output at once, or to a file that is there when all texts are."""
    if output is None or output == STANDARD_OUTPUT:
        yield write_part
        return
    with writing(output) as write:
        yield lambda text: write(text.encode())


@contextmanager
def line_writer(output: Path | None = None) -> Iterator[Callable[[Line], None]]:
    """Give a function that writes a line: see `text_writer`."""
    with text_writer(output) as write:
        yield lambda line: write(f"{_text_of(line)}\n")


def _text_of(line: Line) -> str:
    return line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)


def write_part(part: str, own: bool = False) -> None:
    """Write a part of a text to standard output at once; `own` is not data, but styled by ourselves for a terminal."""
    sys.stdout.buffer.write((printable(part) if sys.stdout.isatty() and not own else part).encode())
    sys.stdout.buffer.flush()


class _Terminal(io.TextIOWrapper):
    """Standard output that is a terminal: data cannot act on it. In a file or a pipe results are byte-exact."""

    def write(self, text: str) -> int:
        return super().write(printable(text))


class _Nowhere(io.RawIOBase):
    """Standard output that was closed before we began (`>&-`): whatever has no result works."""

    def fileno(self) -> int:
        return 1

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise UserError(
            "standard output is closed, but there are results to write: leave `>&-` out, or write them to a file with "
            "`> FILE`."
        )


def open_streams() -> None:
    """Make standard streams usable whatever they are: closed, full, without a reader, or in another encoding.

    A descriptor that is closed is opened on the null device first. A file that is opened later would otherwise take
    its number, and whatever a library prints would be written into this file.
    """
    usable = [_is_open(descriptor, wanted) for descriptor, wanted in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))]
    for descriptor, is_usable in enumerate(usable):
        if not is_usable:
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
            os.set_inheritable(descriptor, True)
    if not usable[0]:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # a descriptor: nothing to read
    if not usable[1]:
        sys.stdout = io.TextIOWrapper(_Nowhere(), encoding="utf-8", write_through=True)
    elif isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.isatty():
        raw = io.FileIO(sys.stdout.fileno(), "w", closefd=False)
        sys.stdout = _Terminal(io.BufferedWriter(raw), encoding="utf-8", errors="replace", line_buffering=True)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # like every file of ours, whatever the locale
    sys.stderr = tolerate_closed_reader(sys.stderr if usable[2] else None, full_disk=True)


def _is_open(descriptor: int, wanted: int) -> bool:
    """Whether a descriptor is open, and for reading or writing as it must be."""
    try:
        mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
    except OSError:
        return False
    return mode in (wanted, os.O_RDWR)


def write_result(result: Line, output: Path | None = None) -> None:
    """Write a result, a JSON object or text of one or several lines, to standard output, or to a file."""
    with line_writer(output) as write:
        write(result)


def write_page(page: str, output: Path | None) -> None:
    """Write a page or an image, and say that a browser shows it, unless it goes to standard output."""
    write_result(page.rstrip(), output)
    if output is not None and output != STANDARD_OUTPUT:
        tell_page(output)


def tell_page(output: Path) -> None:
    """Say that a browser shows a file."""
    messages.note(f"{output} ({output.stat().st_size / 1000:,.0f} kB): open it in a browser.")


def check_output(output: Path | None) -> None:
    """Refuse, before anything long begins, an output file that is a folder, or whose folder does not exist."""
    if output is None or output == STANDARD_OUTPUT:
        return
    if output.is_dir():
        raise UserError(f"{output}: this is a folder, but must be a file.")
    if not output.parent.exists():
        make = shlex.join(["mkdir", "-p", str(output.parent)])
        raise UserError(
            f"{output}: there is no folder {output.parent}: create it with `{make}`, or choose another file."
        )


# --- progress -----------------------------------------------------------------------------------------------------


@contextmanager
def progress_bar(doing: str, total: int, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Give a function that counts what has been done; the bar, labelled `doing`, is shown only on a terminal."""
    if not (shown and sys.stderr.isatty()) or messages.is_quiet():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task(printable(doing), total=total)
        yield lambda done: bar.advance(task, done)


def line_progress(doing: str, counts: Sequence[Callable[[], int | None]], output: Path | None = None) -> Progress:
    """Show how many inputs are done, if their number is known and the results do not go to this terminal."""
    in_the_way = output in (None, STANDARD_OUTPUT) and sys.stdout.isatty()
    found = [count() for count in counts] if sys.stderr.isatty() and not in_the_way else [None]
    known = [count for count in found if count is not None]
    return progress_bar(doing, sum(known), shown=len(known) == len(found))
