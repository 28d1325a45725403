"""What every verb that searches with a model shares: options, progress, and the form of a line."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="A folder that `heedful train` wrote.")]
BeamOption = Annotated[
    int | None, typer.Option("--beam", min=1, help="Hypotheses side by side; 1 is greedy. (default: the recipe's)")
]
LengthPenaltyOption = Annotated[
    float | None,
    typer.Option("--length-penalty", min=0, help="alpha of ((5 + length) / 6)^alpha. (default: the recipe's)"),
]
MaxExtraOption = Annotated[
    int | None,
    typer.Option("--max-extra", min=1, help="The most tokens more than the source has. (default: the recipe's)"),
]
BatchTokensOption = Annotated[
    int | None,
    typer.Option("--batch-tokens", min=1, help="Source tokens times beams of a batch. (default: the recipe's)"),
]
DeviceOption = Annotated[
    str, typer.Option("--device", help="auto, cpu, cuda or cuda:1; auto is a GPU where there is one.")
]
PrecisionOption = Annotated[
    str, typer.Option("--precision", help="auto, float32 or bfloat16; auto is bfloat16 on a GPU.")
]


@contextmanager
def sentence_progress(total: int, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Give a function that counts sentences; a bar on standard error shows the count where that is a terminal."""
    if not (shown and sys.stderr.isatty()):
        yield lambda ready: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("translating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("", total=total)
        yield lambda ready: bar.advance(task, ready)


def one_line(text: str) -> str:
    """Keep a text on its line: a model can write a line's end too."""
    return re.sub(r"[\r\n]+", " ", text)
