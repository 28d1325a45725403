"""`heedful tag MODEL [FILE|TEXT...]`: a label for every word."""

from typing import TYPE_CHECKING, Annotated

from heedful.base.columns import one_column
from heedful.base.label_schemes import mark_spans
from heedful.cli.answering import AnsweringTexts
from heedful.cli.options import json_option, with_option_groups
from heedful.cli.output import Line

if TYPE_CHECKING:
    from heedful.tasks.tag.model import Tagging


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
    entries = asked.open("one sentence per line, words separated by spaces")
    with asked.loading() as place:
        from heedful.tasks.tag.model import load_tagger  # after the quick checks: importing torch takes seconds

        tagger = load_tagger(*place)
    spans = mark_spans(tagger.labels)

    def line(found: "Tagging") -> Line:
        if as_json:
            marked = {"spans": [span._asdict() for span in found.spans()]} if spans else {}
            return {"words": found.words, "labels": found.labels, "probabilities": found.probabilities, **marked}
        labelled = zip(map(one_column, found.words), map(one_column, found.labels), strict=True)
        return "".join(f"{word}\t{label}\n" for word, label in labelled)  # the last break: a blank line follows

    asked.write("tagging", entries, tagger.stream, line)
