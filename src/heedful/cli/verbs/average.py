"""`heedful average`: the mean of models' weights as one model."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def command(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="A run folder, or several models of one shape.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the averaged model goes.")],
    last: Annotated[int | None, typer.Option("--last", min=2, help="The last so many checkpoints of the run.")] = None,
    best: Annotated[
        int | None, typer.Option("--best", min=2, help="The best so many, of those that were validated when saved.")
    ] = None,
) -> None:
    """Average the last or best checkpoints of a run, or several models, weight by weight, into a new model."""
    from heedful.runs.averaging import are_strangers, average  # torch takes seconds: not before the options are right

    parts = average(models, out, last=last, best=best)
    print(f"The mean of {', '.join(part.name for part in parts)} is in {out}")
    if len(models) > 1 and are_strangers(models):
        print(
            "heedful: these models may have begun with different weights, whose mean is most likely noise: look at its "
            "scores.",
            file=sys.stderr,
        )
