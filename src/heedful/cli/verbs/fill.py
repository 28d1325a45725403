"""`heedful fill MODEL [TEXT...]`: the most likely tokens for each [MASK]."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.cli.input import InputLines, standard_input
from heedful.cli.options import DeviceOption, ModelArgument, PrecisionOption
from heedful.cli.output import line_writer
from heedful.columns import one_line
from heedful.errors import UserError

if TYPE_CHECKING:
    from heedful.tasks.fill.model import Filled


def command(
    model: ModelArgument,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts that contain [MASK]; by default the lines of standard input."),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", metavar="K", min=1, help="Show the K most likely tokens for each mask.")
    ] = 5,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per line: the text, and the tokens for each mask.")
    ] = False,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Fill in the masks of texts: each text with the most likely tokens, then a list of candidates for each mask.

    A mask is written `[MASK]` or `<mask>`. Several masks in one text are predicted in one pass, independently of each
    other. A blank line of standard input stays blank.
    """
    entry = InputLines("texts", lambda: _typed(texts)) if texts else standard_input()
    from heedful.tasks.fill.model import load_filler  # after the quick checks: importing torch takes seconds

    filler = load_filler(model, device, precision)
    layout = _object if as_json else _table
    with line_writer() as write:
        for found in filler.stream(entry.lines(), top, ready=entry.ready, name=entry.name):
            write(layout(found))


def _typed(texts: list[str]) -> list[str]:
    """Return the texts of the command line; refuse the name of a file."""
    for text in texts:
        if "[" not in text and "<" not in text and Path(text).is_file():
            raise UserError(f"{text} is a file, but must be a text: to read the file, use `< {text}`.")
    return texts


def _table(found: "Filled") -> str:
    """Write the filled text, then an indented line for each candidate, numbered by mask if there are several masks."""
    lines = [one_line(found.text)]
    width = max((len(candidate.piece) for mask in found.masks for candidate in mask), default=0)
    for number, candidates in enumerate(found.masks, start=1):
        before = f"{number}  " if len(found.masks) > 1 else ""
        for candidate in candidates:
            lines.append(f"  {before}{candidate.piece:<{width}}  {candidate.probability:.4f}")
    return "\n".join(lines)


def _object(found: "Filled") -> str:
    masks = [[asdict(candidate) for candidate in candidates] for candidates in found.masks]
    return json.dumps({"text": found.text, "masks": masks}, ensure_ascii=False)
