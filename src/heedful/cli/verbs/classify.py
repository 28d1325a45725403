"""`heedful classify MODEL [FILES...]`: one line out for every line in, or for every image."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.base.columns import one_column
from heedful.base.errors import UserError
from heedful.cli import messages
from heedful.cli.images import Unread, image_inputs, reads_images
from heedful.cli.input import open_inputs
from heedful.cli.options import (
    DeviceOption,
    InputsArgument,
    ModelArgument,
    OutputOption,
    PrecisionOption,
    TextOption,
)
from heedful.cli.output import check_output, image_progress, line_progress, line_writer
from heedful.data.corpora.texts import text_of_line

if TYPE_CHECKING:
    from heedful.tasks.classify.model import Classification


def command(
    model: ModelArgument,
    inputs: InputsArgument = None,
    text: TextOption = None,
    every_class: Annotated[
        bool, typer.Option("--all", help="Write every class with its probability, most likely first.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per line: label and all probabilities.")
    ] = False,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Classify files, texts or standard input, line by line and in order. A blank line stays blank.

    Each line of output is a label and its probability, separated by a tab. A model with several labels writes
    `a,b` and `0.98,0.71`, or two empty columns if none applies. A model of text pairs reads two texts per line,
    separated by a tab. A model of images reads image files, and folders of them, and writes the path of each before
    its label. The line of an image that cannot be read is blank; the others are classified, and the command fails.
    """
    if as_json and every_class:
        raise UserError("--json has every class in every object: leave out --all.")
    check_output(output)
    layout = _layout(every_class, as_json)
    if reads_images(model):
        paths = image_inputs(inputs, text)
        with messages.busy(f"loading {model}"):
            from heedful.tasks.classify.image_models import ImageClassifier  # after the quick checks

            reader = ImageClassifier.load(model, device, precision)
        with line_writer(output) as write, image_progress(paths, output) as progress:
            unread = Unread()
            for path, found in zip(paths, reader.stream(paths, refused=unread.add), strict=True):
                answered = bool(found.probabilities)
                write(layout(found, reader.several, str(path)) if answered else unread.line(path, as_json))
                progress(1)
        unread.check()
        return
    entries = open_inputs(inputs, text)
    with messages.busy(f"loading {model}"):
        from heedful.tasks.classify.model import load_classifier  # after the quick checks: torch takes seconds

        classifier = load_classifier(model, device, precision)
    with line_writer(output) as write, line_progress("classifying", entries, output) as progress:
        for entry in entries:
            texts = (
                text_of_line(line, classifier.paired, f"{entry.name}, line {number:,}")
                for number, line in enumerate(entry.lines(), start=1)
            )
            for found in classifier.stream_texts(texts, ready=entry.ready, name=entry.name):
                write(layout(found, classifier.several, None))
                progress(1)


def _layout(every_class: bool, as_json: bool) -> "Callable[[Classification, bool, str | None], str]":
    """Choose how to write an answer: columns separated by tabs, or a JSON object.

    It gets the answer, whether a text may have several labels, and the path of an image, None for a text.
    """
    if as_json:
        return _object
    return _all_columns if every_class else _columns


def _columns(found: "Classification", several: bool, path: str | None) -> str:
    """Write the labels and their probabilities; nothing for a blank text."""
    if not found.probabilities:
        return ""
    shares = [f"{found.probabilities[label]:.4f}" for label in found.labels]
    return _after_path(path, f"{','.join(map(one_column, found.labels))}\t{','.join(shares)}")


def _all_columns(found: "Classification", several: bool, path: str | None) -> str:
    """Write every class and its probability, most likely first; ties stay in the model's order."""
    ranked = sorted(found.probabilities.items(), key=lambda share: -share[1])
    return _after_path(path, "\t".join(f"{one_column(label)}\t{share:.4f}" for label, share in ranked))


def _after_path(path: str | None, columns: str) -> str:
    return columns if path is None else f"{one_column(path)}\t{columns}"


def _object(found: "Classification", several: bool, path: str | None) -> str:
    image: dict[str, object] = {} if path is None else {"image": path}
    labels: dict[str, object] = {"labels": found.labels} if several else {"label": found.label or None}
    return json.dumps({**image, **labels, "probabilities": found.probabilities}, ensure_ascii=False)
