"""`heedful caption MODEL FILE...`: a sentence about every image."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.base.columns import one_column
from heedful.base.errors import UserError
from heedful.cli import messages
from heedful.cli.images import Unread, image_inputs
from heedful.cli.options import (
    DecodingOptions,
    DeviceOption,
    ModelArgument,
    OutputOption,
    PrecisionOption,
    SampleOption,
    SamplingOptions,
    sampling_of,
    with_option_groups,
)
from heedful.cli.output import check_output, image_progress, line_writer

if TYPE_CHECKING:
    from heedful.tasks.caption.model import Caption


@with_option_groups
def command(
    model: ModelArgument,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Image files (PNG, JPEG, WebP), and folders of them."),
    ] = None,
    nbest: Annotated[
        int | None,
        typer.Option("--n-best", "-n", metavar="N", min=1, help="Write N captions per image: path, score, caption."),
    ] = None,
    patches: Annotated[
        bool,
        typer.Option(
            "--patches", help="With --json: the row and column of the patch that each piece attended to most."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per image: path, text, score, token ids and more.")
    ] = False,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    *,
    decoding: DecodingOptions,
    sample: SampleOption = False,
    sampling: SamplingOptions,
) -> None:
    """Describe images in sentences: for each, its path, a tab and the caption, in order.

    Of a folder, all images in it and in its folders are described. The maximum length of a caption is --max-extra.
    The line of an image that cannot be read is blank; the others are described, and the command fails.
    """
    check_output(output)
    samples, decoding = sampling_of(sample, sampling, decoding, nbest)
    if patches and not as_json:
        raise UserError("--patches adds to the objects of --json: add --json.")
    paths = image_inputs(inputs)
    with messages.busy(f"loading {model}"):
        from heedful.tasks.caption.model import Captioner  # after the quick checks: torch takes seconds

        captioner = Captioner.load(model, device, precision)
    cut, unread = 0, Unread()
    with line_writer(output) as write, image_progress(paths, output, "describing") as progress:
        found = captioner.stream_detailed(
            paths,
            nbest=1 if samples else nbest or 1,
            progress=progress,
            refused=unread.add,
            sampling=samples,
            aligned=patches,
            **decoding,
        )
        for path, captions in zip(paths, found, strict=True):
            if not captions:
                write(unread.line(path, as_json))
                progress(1)
                continue
            write(_object(str(path), captions, nbest) if as_json else _lines(str(path), captions, nbest))
            cut += not captions[0].complete
    if cut:
        messages.warn(
            f"{cut:,} of {len(paths) - len(unread.reasons):,} captions were cut at the maximum length: raise "
            "--max-extra to see more of them."
        )
    unread.check()


def _lines(path: str, captions: "Sequence[Caption]", nbest: int | None) -> str:
    """Write a line for each caption; with the score if there are several."""
    columns = ([path, *([f"{one.score:.4f}"] if nbest else []), one.text] for one in captions[: nbest or 1])
    return "\n".join("\t".join(map(one_column, row)) for row in columns)


def _object(path: str, captions: "Sequence[Caption]", nbest: int | None) -> str:
    best = _fields(captions[0])
    more = {"nbest": [_fields(one) for one in captions]} if nbest else {}
    return json.dumps({"image": path, **best, **more}, ensure_ascii=False)


def _fields(caption: "Caption") -> dict[str, object]:
    return {name: value for name, value in asdict(caption).items() if value is not None}
