"""`heedful regress MODEL [FILES...]`: a number for every line, or for every image."""

from typing import Annotated, Any

from heedful.cli.answering.asked import AnsweringTexts
from heedful.cli.answering.cuts import Cuts
from heedful.cli.options import json_option, with_option_groups
from heedful.tasks.regress.answers import answers_of


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
    with asked.loading(sources) as place:
        from heedful.tasks.loading import load  # after the quick checks: importing torch takes seconds

        regressor: Any = load(*place, adapter=asked.adapter)
    answers, cuts = answers_of(regressor), Cuts()
    asked.write("predicting", sources, cuts.counting(answers), as_json=as_json)
    cuts.tell(asked.recipe)
