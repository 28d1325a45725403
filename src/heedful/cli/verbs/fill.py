"""`heedful fill MODEL [FILE|TEXT...]`: the most likely tokens for each [MASK]."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.base.columns import one_line
from heedful.cli import messages
from heedful.cli.input import open_inputs
from heedful.cli.options import (
    DeviceOption,
    InputsArgument,
    ModelArgument,
    OutputOption,
    PrecisionOption,
    TextOption,
)
from heedful.cli.output import check_output, line_progress, line_writer

if TYPE_CHECKING:
    from heedful.tasks.fill.model import Filled


def command(
    model: ModelArgument,
    inputs: InputsArgument = None,
    text: TextOption = None,
    top: Annotated[
        int, typer.Option("--top", metavar="K", min=1, help="Show the K most likely tokens for each mask.")
    ] = 5,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per line: the text, and the tokens for each mask.")
    ] = False,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Fill in the masks of texts: each text with the most likely tokens, then a list of candidates for each mask.

    A mask is written `[MASK]` or `<mask>`. Several masks in one text are predicted in one pass, independently of each
    other. A blank line stays blank.
    """
    check_output(output)
    entries = open_inputs(inputs, text)
    with messages.busy(f"loading {model}"):
        from heedful.tasks.fill.model import MaskFiller  # after the quick checks: importing torch takes seconds

        filler = MaskFiller.load(model, device, precision)
    layout = _object if as_json else _table
    with line_writer(output) as write, line_progress("filling", entries, output) as progress:
        for entry in entries:
            for found in filler.stream(entry.lines(), top, ready=entry.ready, name=entry.name):
                write(layout(found))
                progress(1)


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
