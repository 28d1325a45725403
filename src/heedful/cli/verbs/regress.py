"""`heedful regress MODEL [FILES...]`: a number for every line, or for every image."""

from typing import Annotated, Any

from heedful.base.columns import in_digits, one_column
from heedful.cli.answering import AnsweringTexts
from heedful.cli.answers import Answers, Given, read_image, read_text
from heedful.cli.options import json_option, with_option_groups


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
    asked.check_task("regress")
    sources = asked.sources(as_json)
    with asked.loading() as place:
        from heedful.tasks.loading import load  # after the quick checks: importing torch takes seconds

        regressor: Any = load(*place)
    asked.write("predicting", sources, answers_of(regressor), as_json=as_json)


def answers_of(regressor: Any) -> Answers[float | None]:
    """Return how a regressor of texts or images answers."""

    def line(number: float | None, given: Given) -> str:
        image = given.values.get("image")
        before = "" if image is None else f"{one_column(str(image))}\t"
        return "" if number is None else f"{before}{in_digits(number, 6)}"

    def fields(number: float | None) -> dict[str, Any]:
        return {"number": number}

    if regressor.recipe.rules.images:
        return Answers(("image",), read_image, regressor.stream_images, fields, ("number",), line, takes=("refused",))
    return Answers(("text", "second"), read_text, regressor.stream_texts, fields, ("number",), line)
