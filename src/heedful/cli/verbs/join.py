"""`heedful join FOLDER`: the answers of a batch job, in order."""

from pathlib import Path
from typing import Annotated

import typer

from heedful.base.files import expand_user
from heedful.cli.answering.parts_folder import PartsFolder
from heedful.cli.options import OutputOption
from heedful.cli.output import check_output, text_writer


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of a batch job: the --output of a command with --shard.")
    ],
    output: OutputOption = None,
) -> None:
    """Check that all parts of a batch job are there and whole, and write them in order.

    The result is what the command of the job writes without --shard, byte for byte. Of whole parts, `cat FOLDER/part-*`
    writes the same.
    """
    check_output(output)
    job = PartsFolder(expand_user(folder))
    job.check_whole()
    with text_writer(output) as write:
        for part in job.read():
            write(part)
