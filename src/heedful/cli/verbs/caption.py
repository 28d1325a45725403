"""`heedful caption MODEL FILE...`: a sentence about every image."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heedful.base.columns import one_column
from heedful.base.errors import UserError
from heedful.cli import messages
from heedful.cli.answering.asked import Answering
from heedful.cli.input import image_inputs
from heedful.cli.options import Searching, json_option, n_best_option, option, with_option_groups
from heedful.tasks.shared.answering.answers import Answers, Given

if TYPE_CHECKING:
    from heedful.tasks.caption.model import Caption, Captioner


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
    asked.check_task("caption")
    data = asked.data_source(("image",), as_json, {"other files": inputs}, bool(nbest))
    sources = asked.images(image_inputs(inputs)) if data is None else [data]
    with asked.loading(sources) as place:
        from heedful.tasks.caption.model import Captioner  # after the quick checks: torch takes seconds

        captioner = Captioner.load(*place, adapter=asked.adapter)
    work = _Captioning(captioner, nbest, {"aligned": patches, **options})
    try:
        asked.write("describing", sources, work.answers(), as_json=as_json)
    finally:
        if work.cut:
            messages.warn(
                f"{work.cut:,} of {work.total:,} captions were cut at the maximum length: raise --max-extra to see "
                "more of them."
            )


class _Captioning:
    """Describes images as one command asks: `total` counts captions, and `cut` those that are too long."""

    def __init__(self, captioner: "Captioner", nbest: int | None, options: Mapping[str, Any]) -> None:
        self._captioner, self._nbest, self._options = captioner, nbest, options
        self.total, self.cut = 0, 0

    def answers(self) -> "Answers[Sequence[Caption]]":
        """Return how the captioner answers."""
        return Answers(
            ("image",),
            lambda values, where: getattr(values["image"], "source", values["image"]),  # a path, or pixels
            self._stream,
            self._fields,
            ("caption",),
            self._line,
            takes=("refused", "progress"),
            formerly={"text": "caption"},
        )

    def _stream(self, images: Iterable[Any], **told: Any) -> "Iterator[Sequence[Caption]]":
        for found in self._captioner.stream_detailed(images, **told, **self._options):
            self.total += bool(found)
            self.cut += bool(found) and not found[0].complete
            yield found

    def _fields(self, captions: "Sequence[Caption]") -> dict[str, Any]:
        found = [{name: value for name, value in asdict(one).items() if value is not None} for one in captions]
        return {"caption": found[0]["text"], **found[0], **({"nbest": found} if self._nbest else {})}

    def _line(self, captions: "Sequence[Caption]", given: Given) -> str:
        path, nbest = str(given.values["image"]), self._nbest
        columns = ([path, *([f"{one.score:.4f}"] if nbest else []), one.text] for one in captions[: nbest or 1])
        return "\n".join("\t".join(map(one_column, row)) for row in columns)
