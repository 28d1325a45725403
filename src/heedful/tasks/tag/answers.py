"""How taggers answer: words with their labels, as JSON, as columns and as lines."""

from typing import TYPE_CHECKING, Any

from heedful.base.columns import one_column
from heedful.base.label_schemes import mark_spans
from heedful.tasks.shared.answering.answers import Answers, Given

if TYPE_CHECKING:
    from heedful.tasks.tag.model import Tagger, Tagging


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
