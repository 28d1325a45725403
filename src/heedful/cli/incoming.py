"""Lines that a verb answers one by one: of files, or of standard input as they arrive."""

import io
import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

import typer

from heedful.cli.arriving import Arriving
from heedful.data.lines import TextFile, check_exists, decode_lines, locate, read_lines

STANDARD_INPUT: Final = "-"
_HINT: Final = " (texts are read from files or from standard input, not from the command line)"
FilesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILES", help="Text, .gz, .xz or member of a .zip; `-` is standard input."),
]


@dataclass(frozen=True)
class Incoming:
    """Lines, where they come from, and whether a further one is there already."""

    name: str
    lines: Callable[[], Iterable[str]]
    ready: Callable[[], bool] = lambda: True
    file: TextFile | None = None  # where it can be read twice


def incoming(files: Sequence[str] | None) -> list[Incoming]:
    """The lines of files, or of standard input where none is named; refuses what cannot be opened."""
    return [_of_file(name) if name != STANDARD_INPUT else _standard_input() for name in files or [STANDARD_INPUT]]


def expected(inputs: Sequence[Incoming]) -> int | None:
    """How many lines there are, where it can be known before they are answered."""
    known = [entry.file for entry in inputs if entry.file]
    return None if len(known) < len(inputs) else sum(1 for file in known for _ in read_lines(file))


def _of_file(name: str) -> Incoming:
    file = replace(locate(name), hint=_HINT if " " in name else "")  # instead of one about recipes
    check_exists(file)
    again = file if file.path.is_file() else None
    return Incoming(file.name, lambda: read_lines(file), file=again)


def _standard_input() -> Incoming:
    name = "standard input"
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:  # not the process's own: there is nothing to await
        return Incoming(name, lambda: decode_lines(sys.stdin.buffer, name))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return Incoming(name, lambda: decode_lines(sys.stdin.buffer, name))
    arriving = Arriving(descriptor)
    return Incoming(name, lambda: decode_lines(arriving, name), arriving.ready)
