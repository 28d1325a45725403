"""`heedful regress MODEL [FILES...]`: a number for every line, or for every image."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

from heedful.base.columns import in_digits, one_column
from heedful.cli.answering import AnsweringTexts
from heedful.cli.answers import Answers, Given, read_image, read_text
from heedful.cli.cuts import Cuts, Number, numbers
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
    answers, cuts = answers_of(regressor), Cuts()
    asked.write("predicting", sources, replace(answers, stream=cuts.counted(answers.stream)), as_json=as_json)
    cuts.tell(asked.recipe)


def answers_of(regressor: Any) -> Answers[Number]:
    """Return how a regressor of texts or images answers."""

    def line(number: Number, given: Given) -> str:
        image = given.values.get("image")
        before = "" if image is None else f"{one_column(str(image))}\t"
        return "" if number.value is None else f"{before}{in_digits(number.value, 6)}"

    def fields(number: Number) -> dict[str, Any]:
        return {"number": number.value, **({"cut": True} if number.cut else {})}

    if regressor.recipe.rules.images:

        def stream(*given: Any, **options: Any) -> Iterator[Number]:
            return map(Number, regressor.stream_images(*given, **options))

        return Answers(("image",), read_image, stream, fields, ("number",), line, takes=("refused",))
    return Answers(("text", "second"), read_text, numbers(regressor.stream_texts), fields, ("number",), line)
