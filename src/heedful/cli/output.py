"""A bar on standard error that shows how much of the work is done."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(doing: str, total: int, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Give a function that counts what got ready; `doing` stands before the bar, which only a terminal shows."""
    if not (shown and sys.stderr.isatty()):
        yield lambda ready: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("", total=total)
        yield lambda ready: bar.advance(task, ready)
