"""`heedful import FOLDER`: a model of Hugging Face's form as a model of Heedful."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A local folder that `transformers` wrote.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Where the model goes; by default runs/NAME.")
    ] = None,
) -> None:
    """Import a translator (MarianMT, as OPUS-MT's) or BERT from a local folder; nothing is downloaded, or run."""
    from heedful.interop.importing import import_model  # torch takes seconds: not before the options are right

    place = out or Path("runs") / folder.resolve().name
    found = import_model(folder, place)
    print(f"{folder} ({found.model_type}, {found.parameters:,} parameters) is now a model of Heedful in {place}")
