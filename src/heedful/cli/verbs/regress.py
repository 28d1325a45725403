"""`heedful regress MODEL [FILES...]`: a number for every line, or for every image."""

import json
from typing import Annotated

import typer

from heedful.base.columns import one_column
from heedful.cli import messages
from heedful.cli.images import Unread, family_of, image_inputs
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


def command(
    model: ModelArgument,
    inputs: InputsArgument = None,
    text: TextOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object per line: the number.")] = False,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Predict a number for files, texts or standard input, line by line and in order. A blank line stays blank.

    A model of text pairs reads two texts per line, separated by a tab. A model of images reads image files, and folders
    of them, and writes the path of each before its number. The line of an image that cannot be read is blank; the
    others have a number, and the command fails.
    """
    check_output(output)

    def line(number: float | None, path: str | None = None) -> str:
        if as_json:
            image = {} if path is None else {"image": path}
            return json.dumps({**image, "number": number}, ensure_ascii=False)
        before = "" if path is None else f"{one_column(path)}\t"
        return "" if number is None else f"{before}{number:.6g}"

    if family_of(model) == "image_regressor":
        paths = image_inputs(inputs, text)
        with messages.busy(f"loading {model}"):
            from heedful.tasks.regress.model import ImageRegressor  # after the quick checks: torch takes seconds

            reader = ImageRegressor.load(model, device, precision)
        with line_writer(output) as write, image_progress(paths, output) as progress:
            unread = Unread()
            for path, number in zip(paths, reader.stream(paths, refused=unread.add), strict=True):
                write(unread.line(path, as_json) if number is None else line(number, str(path)))
                progress(1)
        unread.check()
        return
    entries = open_inputs(inputs, text)
    with messages.busy(f"loading {model}"):
        from heedful.tasks.regress.model import TextRegressor  # after the quick checks: torch takes seconds

        regressor = TextRegressor.load(model, device, precision)
    with line_writer(output) as write, line_progress("predicting", entries, output) as progress:
        for entry in entries:
            texts = (
                text_of_line(given, regressor.paired, f"{entry.name}, line {number:,}")
                for number, given in enumerate(entry.lines(), start=1)
            )
            for found in regressor.stream_texts(texts, ready=entry.ready, name=entry.name):
                write(line(found))
                progress(1)
