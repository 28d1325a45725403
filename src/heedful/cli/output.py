"""What verbs write: results on standard output or in a file, and a progress bar on standard error."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from heedful.base.errors import UserError
from heedful.base.files import writing
from heedful.cli import messages

_STANDARD_OUTPUT: Final = Path("-")

Line = str | Mapping[str, object]  # what is written as it is, or as a JSON object
Progress = AbstractContextManager[Callable[[int], None]]  # gives a function that counts what has been done

# --- lines --------------------------------------------------------------------------------------------------------


@contextmanager
def line_writer(output: Path | None = None) -> Iterator[Callable[[Line], None]]:
    """Give a function that writes a line: to standard output at once, or to a file that is there when all lines are."""
    if output is None or output == _STANDARD_OUTPUT:
        yield lambda line: write_part(f"{_text_of(line)}\n")
        return
    with writing(output) as write:
        yield lambda line: write(f"{_text_of(line)}\n".encode())


def _text_of(line: Line) -> str:
    return line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)


def write_part(part: str) -> None:
    """Write a part of a text to standard output at once."""
    sys.stdout.buffer.write(part.encode())
    sys.stdout.buffer.flush()


def write_result(result: Line, output: Path | None = None) -> None:
    """Write a result, a JSON object or text of one or several lines, to standard output, or to a file."""
    with line_writer(output) as write:
        write(result)


def write_page(page: str, output: Path | None) -> None:
    """Write a page or an image, and say that a browser shows it, unless it goes to standard output."""
    write_result(page.rstrip(), output)
    if output is not None and output != _STANDARD_OUTPUT:
        tell_page(output)


def tell_page(output: Path) -> None:
    """Say that a browser shows a file."""
    messages.note(f"{output} ({output.stat().st_size / 1000:,.0f} kB): open it in a browser.")


def check_output(output: Path | None) -> None:
    """Refuse, before anything long begins, an output file that is a folder, or whose folder does not exist."""
    if output is None or output == _STANDARD_OUTPUT:
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

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.advance(task, done)


def line_progress(doing: str, counts: Sequence[Callable[[], int | None]], output: Path | None = None) -> Progress:
    """Show how many inputs are done, if their number is known and the results do not go to this terminal."""
    in_the_way = output in (None, _STANDARD_OUTPUT) and sys.stdout.isatty()
    found = [count() for count in counts] if sys.stderr.isatty() and not in_the_way else [None]
    known = [count for count in found if count is not None]
    return progress_bar(doing, sum(known), shown=len(known) == len(found))
