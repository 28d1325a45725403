"""`heedful tag MODEL [FILE|TEXT...]`: a label for every word."""

from typing import TYPE_CHECKING, Annotated, Any

from heedful.base.columns import one_column
from heedful.base.label_schemes import mark_spans
from heedful.cli.answering import AnsweringTexts
from heedful.cli.answers import Answers, Given
from heedful.cli.options import json_option, with_option_groups

if TYPE_CHECKING:
    from heedful.tasks.tag.model import Tagger, Tagging


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
    with asked.loading() as place:
        from heedful.tasks.tag.model import load_tagger  # after the quick checks: importing torch takes seconds

        tagger = load_tagger(*place)
    asked.write("tagging", sources, answers_of(tagger), as_json=as_json)


def answers_of(tagger: "Tagger") -> "Answers[Tagging]":
    """Return how a tagger answers."""
    spans = mark_spans(tagger.labels)

    def fields(found: "Tagging") -> dict[str, Any]:
        marked = {"spans": [span._asdict() for span in found.spans()]} if spans else {}
        return {"words": found.words, "labels": found.labels, "probabilities": found.probabilities, **marked}

    def line(found: "Tagging", given: Given) -> str:
        labelled = zip(map(one_column, found.words), map(one_column, found.labels), strict=True)
        return "".join(f"{word}\t{label}\n" for word, label in labelled)  # the last break: a blank line follows

    columns = ("labels", "probabilities")
    return Answers(("text",), lambda values, where: values["text"], tagger.stream, fields, columns, line)
