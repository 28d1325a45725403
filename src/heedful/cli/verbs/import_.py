"""`heedful import FOLDER`: convert a Hugging Face model into a model of Heedful."""

import re
from pathlib import Path
from typing import Annotated

import typer

from heedful.base.errors import UserError
from heedful.cli import messages
from heedful.cli.options import json_option, out_option
from heedful.cli.output import write_result


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Local folder written by `transformers`.")],
    out: Annotated[str | None, out_option(" (default: runs/NAME)")] = None,
    as_json: Annotated[bool, json_option("the folder, its kind and its size")] = False,
) -> None:
    """Import a model of `transformers` from a folder.

    MarianMT (such as the OPUS-MT translators), Pegasus, M2M-100, NLLB, mBART-50, BERT, RoBERTa, XLM-RoBERTa,
    DistilBERT, GPT-2, Llama, Mistral, Qwen2 or ViT. Nothing is downloaded or run.
    """
    name = folder.as_posix()
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not folder.exists() and not folder.parent.exists():
        local = folder.name
        raise UserError(
            f"{name} is not a folder. If it is the name of a model on the Hugging Face hub, download it first with "
            f"`hf download {name} --local-dir {local}`, then `heedful import {local}`."
        )
    from heedful.interop.importing import import_model  # importing torch takes seconds
    from heedful.tasks.loading import next_command

    place = Path("runs") / folder.resolve().name if out is None else out
    found = import_model(folder, place)
    following = next_command(Path(place))
    if as_json:
        written = {"model": str(place), "type": found.model_type, "parameters": found.parameters}
        write_result({**written, "next": following})
        return
    print(f"{folder} ({found.model_type}, {found.parameters:,} parameters) is now a model of Heedful in {place}")
    messages.note(f"next: {following}")
