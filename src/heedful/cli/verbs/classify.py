"""`heedful classify MODEL [FILES...]`: one line out for every line in, or for every image."""

from typing import TYPE_CHECKING, Annotated, Any

from heedful.base.errors import UserError
from heedful.cli.answering.asked import AnsweringTexts
from heedful.cli.answering.cuts import Cuts
from heedful.cli.options import json_option, option, with_option_groups
from heedful.tasks.classify.answers import answers_of

if TYPE_CHECKING:
    pass


@with_option_groups
def command(
    asked: AnsweringTexts,
    every_class: Annotated[
        bool, option("Write everything: each class with its probability, most likely first.", "--all")
    ] = False,
    as_json: Annotated[bool, json_option("one object per line, with label and all probabilities")] = False,
) -> None:
    """Classify files, texts or standard input, line by line and in order. A blank line stays blank.

    Each line of output is a label and its probability, separated by a tab. A model with several labels writes
    `a,b` and `0.98,0.71`, or two empty columns if none applies. A model of text pairs reads two texts per line,
    separated by a tab. A model of images reads image files, and folders of them, and writes the path of each before
    its label. The line of an image that cannot be read is blank; the others are classified, and the command fails.
    """
    if as_json and every_class:
        raise UserError("--json has every class in every object: leave out --all.")
    asked.check_task("classify")
    sources = asked.sources(as_json)
    with asked.loading(sources) as place:
        from heedful.tasks.loading import load  # after the quick checks: importing torch takes seconds

        classifier: Any = load(*place, adapter=asked.adapter)
    answers, cuts = answers_of(classifier, every_class), Cuts()
    asked.write("classifying", sources, cuts.counting(answers), as_json=as_json)
    cuts.tell(asked.recipe)
