"""`heedful import FOLDER`: convert a Hugging Face model into a model of Heedful."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Local folder written by `transformers`.")],
    out: Annotated[
        str | None, typer.Option("--out", metavar="FOLDER", help="Folder for the model (default: runs/NAME).")
    ] = None,
) -> None:
    """Import MarianMT (such as the OPUS-MT translators) or BERT from a local folder; nothing is downloaded or run."""
    from heedful.interop.importing import import_model  # importing torch takes seconds

    place = Path("runs") / folder.resolve().name if out is None else out
    found = import_model(folder, place)
    print(f"{folder} ({found.model_type}, {found.parameters:,} parameters) is now a model of Heedful in {place}")
