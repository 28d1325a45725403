"""`heedful tag MODEL [FILE|TEXT...]`: a label for every word."""

from typing import TYPE_CHECKING, Annotated

from heedful.cli.answering.asked import AnsweringTexts
from heedful.cli.options import json_option, with_option_groups
from heedful.tasks.tag.answers import answers_of

if TYPE_CHECKING:
    pass


@with_option_groups
def command(
    asked: AnsweringTexts,
    as_json: Annotated[
        bool, json_option("one object per sentence, with words, labels, their probabilities, and spans")
    ] = False,
) -> None:
    """Label the words of sentences, one sentence per line, words separated by spaces.

    Each line of output is a word and its label, separated by a tab; a blank line follows each sentence. A sentence of
    any length is labelled in full: one that is longer than the model reads is cut between words. A blank line stays
    blank.
    """
    asked.check_task("tag")
    sources = asked.sources(as_json, on_each_line="one sentence per line, words separated by spaces")
    with asked.loading(sources) as place:
        from heedful.tasks.tag.model import load_tagger  # after the quick checks: importing torch takes seconds

        tagger = load_tagger(*place, adapter=asked.adapter)
    asked.write("tagging", sources, answers_of(tagger), as_json=as_json)
