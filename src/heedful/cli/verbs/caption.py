"""`heedful caption MODEL FILE...`: a sentence about every image."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.base.columns import one_column
from heedful.base.errors import UserError
from heedful.cli import messages
from heedful.cli.answering import Answering
from heedful.cli.input import check_all_read, image_inputs
from heedful.cli.options import Searching, json_option, n_best_option, option, with_option_groups
from heedful.cli.output import Line

if TYPE_CHECKING:
    from heedful.tasks.caption.model import Caption


@with_option_groups
def command(
    asked: Answering,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Image files (PNG, JPEG, WebP), and folders of them."),
    ] = None,
    nbest: Annotated[int | None, n_best_option("captions per image, on lines with path, score, caption")] = None,
    patches: Annotated[
        bool, option("With --json: the row and column of the patch that each piece attended to most.", "--patches")
    ] = False,
    as_json: Annotated[bool, json_option("one object per image, with path, text, score, token ids and more")] = False,
    *,
    search: Searching,
) -> None:
    """Describe images in sentences: for each, its path, a tab and the caption, in order.

    Of a folder, all images in it and in its folders are described. The maximum length of a caption is --max-extra.
    The line of an image that cannot be read is blank; the others are described, and the command fails.
    """
    options = search.options(nbest)
    if patches and not as_json:
        raise UserError("--patches adds to the objects of --json: add --json.")
    images = image_inputs(inputs)
    with asked.loading() as place:
        from heedful.tasks.caption.model import Captioner  # after the quick checks: torch takes seconds

        captioner = Captioner.load(*place)
    cut = 0

    def line(captions: "Sequence[Caption]", path: str) -> Line:
        nonlocal cut
        cut += not captions[0].complete
        if as_json:
            found = [{name: value for name, value in asdict(one).items() if value is not None} for one in captions]
            return {"image": path, **found[0], **({"nbest": found} if nbest else {})}
        columns = ([path, *([f"{one.score:.4f}"] if nbest else []), one.text] for one in captions[: nbest or 1])
        return "\n".join("\t".join(map(one_column, row)) for row in columns)

    stream = partial(captioner.stream_detailed, aligned=patches, **options)
    unread = asked.write_images("describing", images, stream, line, as_json=as_json, counts=True)
    if cut:
        messages.warn(
            f"{cut:,} of {len(images) - len(unread):,} captions were cut at the maximum length: raise "
            "--max-extra to see more of them."
        )
    check_all_read(unread)
