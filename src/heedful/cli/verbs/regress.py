"""`heedful regress MODEL [FILES...]`: a number for every line, or for every image."""

from typing import Annotated

from heedful.base.columns import in_digits, one_column
from heedful.cli.answering import AnsweringTexts
from heedful.cli.input import check_all_read, family_of, image_inputs
from heedful.cli.options import json_option, with_option_groups
from heedful.cli.output import Line


@with_option_groups
def command(
    asked: AnsweringTexts,
    as_json: Annotated[bool, json_option("one object per line, with the number and, of an image, its path")] = False,
) -> None:
    """Predict a number for each line of files, texts or standard input, in order. A blank line stays blank.

    A model of text pairs reads two texts per line, separated by a tab. A model of images reads image files, and folders
    of them, and writes the path of each before its number. The line of an image that cannot be read is blank; the
    others have a number, and the command fails.
    """

    def line(number: float | None, path: str | None = None) -> Line:
        if as_json:
            return {**({} if path is None else {"image": path}), "number": number}
        before = "" if path is None else f"{one_column(path)}\t"
        return "" if number is None else f"{before}{in_digits(number, 6)}"

    if family_of(asked.model) == "image_regressor":
        images = image_inputs(asked.inputs, asked.text)
        with asked.loading() as place:
            from heedful.tasks.regress.model import ImageRegressor  # after the quick checks: torch takes seconds

            reader = ImageRegressor.load(*place)
        check_all_read(asked.write_images("predicting", images, reader.stream, line, as_json=as_json))
        return
    entries = asked.open()
    with asked.loading() as place:
        from heedful.tasks.regress.model import TextRegressor  # after the quick checks: torch takes seconds

        regressor = TextRegressor.load(*place)
    asked.write("predicting", entries, regressor.stream_texts, line, paired=regressor.paired)
