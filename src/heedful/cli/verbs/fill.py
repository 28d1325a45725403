"""`heedful fill MODEL [TEXT...]`: what may stand in the place of each [MASK]."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.cli.input import InputLines, input_lines
from heedful.cli.options import DeviceOption, ModelArgument, PrecisionOption, one_line
from heedful.errors import UserError

if TYPE_CHECKING:
    from heedful.tasks.fill.model import Filled


def command(
    model: ModelArgument,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts with [MASK] in them; by default standard input, one a line."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="So many pieces for each mask.")] = 5,
    as_json: Annotated[
        bool, typer.Option("--json", help="An object a line: the text, and pieces of each mask.")
    ] = False,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Fill in the masks of texts: each text with the likeliest pieces, and below it the likeliest ones of each mask.

    A mask is written `[MASK]` or `<mask>`. Several of a text are filled in one pass, each by itself. A blank line of
    standard input stays blank.
    """
    asked = InputLines("texts", lambda: _spoken(texts)) if texts else input_lines(None)[0]
    from heedful.tasks.fill.model import load_filler  # after the quick checks: it takes seconds

    filler = load_filler(model, device, precision)
    layout = _object if as_json else _table
    for found in filler.stream(asked.lines(), top, ready=asked.ready, name=asked.name):
        sys.stdout.buffer.write(f"{layout(found)}\n".encode())
        sys.stdout.buffer.flush()


def _spoken(texts: list[str]) -> list[str]:
    """Texts of the command line; refuses the name of a file."""
    for text in texts:
        if "[" not in text and "<" not in text and Path(text).is_file():
            raise UserError(f"{text} is a file, but texts are asked for: give it as standard input, < {text}.")
    return texts


def _table(found: "Filled") -> str:
    """The filled text, and indented below it a line for each piece; of several masks, their numbers before them."""
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
