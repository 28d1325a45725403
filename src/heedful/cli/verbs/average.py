"""`heedful average`: average the weights of checkpoints or models into one model."""

from pathlib import Path
from typing import Annotated

import typer

from heedful.cli import messages
from heedful.cli.options import json_option, option, out_option
from heedful.cli.output import write_result


def command(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="A run folder, or several models of the same shape.")
    ],
    out: Annotated[str, out_option(", as a model of its own")],
    last: Annotated[int | None, option("Average the last N checkpoints of the run.", metavar="N", min=2)] = None,
    best: Annotated[
        int | None, option("Average the N best of the checkpoints that were validated when saved.", metavar="N", min=2)
    ] = None,
    as_json: Annotated[bool, json_option("the folder, and what was averaged")] = False,
) -> None:
    """Average the weights of the last or best checkpoints of a run, or of several models, into a new model."""
    from heedful.runs.averaging import are_strangers, average  # importing torch takes seconds
    from heedful.tasks.loading import next_command

    parts = average(models, out, last=last, best=best)
    following = next_command(Path(out))
    if as_json:
        write_result({"model": str(out), "averaged": [str(part) for part in parts], "next": following})
    else:
        print(f"The average of {', '.join(part.name for part in parts)} is in {out}")
        messages.note(f"next: {following}")
    if len(models) > 1 and are_strangers(models):
        messages.warn(
            "these models may have started from different weights, whose average is most likely noise: check its "
            "scores."
        )
