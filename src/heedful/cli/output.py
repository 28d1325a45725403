"""What verbs write: lines of results, and a progress bar on standard error."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from heedful.cli.input import InputLines, count_lines
from heedful.errors import UserError
from heedful.files import write_bytes

Progress = AbstractContextManager[Callable[[int], None]]  # gives a function that counts what has been done

# --- lines --------------------------------------------------------------------------------------------------------


@contextmanager
def line_writer(output: Path | None = None) -> Iterator[Callable[[str], None]]:
    """Give a function that writes a line: to standard output at once, or to a file when all lines are there."""
    if output is None:
        yield _write_now
        return
    kept: list[str] = []
    yield kept.append
    write_bytes(output, "".join(f"{line}\n" for line in kept).encode())


def _write_now(line: str) -> None:
    sys.stdout.buffer.write(f"{line}\n".encode())
    sys.stdout.buffer.flush()


def refuse_folder(output: Path | None) -> None:
    """Refuse an output file that is a folder."""
    if output and output.is_dir():
        raise UserError(f"{output}: this is a folder, but must be a file.")


# --- progress -----------------------------------------------------------------------------------------------------


@contextmanager
def progress_bar(doing: str, total: int, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Give a function that counts what has been done; the bar, labelled `doing`, is shown only on a terminal."""
    if not (shown and sys.stderr.isatty()):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.advance(task, done)


def sentence_progress(total: int, shown: bool = True) -> Progress:
    """Show how many sentences have been translated."""
    return progress_bar("translating", total, shown)


def line_progress(doing: str, inputs: Sequence[InputLines], output: Path | None = None) -> Progress:
    """Show how many lines are done, if their number is known and the results do not go to the same terminal."""
    in_the_way = output is None and sys.stdout.isatty()
    lines = count_lines(inputs) if sys.stderr.isatty() and not in_the_way else None
    return progress_bar(doing, lines or 0, shown=lines is not None)
