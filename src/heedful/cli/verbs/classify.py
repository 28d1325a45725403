"""`heedful classify MODEL [FILES...]`: one line out for every line in, or for every image."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from heedful.base.columns import one_column
from heedful.base.errors import UserError
from heedful.cli.answering import AnsweringTexts
from heedful.cli.answers import Answers, Given, read_image, read_text
from heedful.cli.cuts import Cuts
from heedful.cli.options import json_option, option, with_option_groups

if TYPE_CHECKING:
    from heedful.tasks.classify.model import Classification


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
    with asked.loading() as place:
        from heedful.tasks.loading import load  # after the quick checks: importing torch takes seconds

        classifier: Any = load(*place)
    answers, cuts = answers_of(classifier, every_class), Cuts()
    asked.write("classifying", sources, replace(answers, stream=cuts.counted(answers.stream)), as_json=as_json)
    cuts.tell(asked.recipe)


def answers_of(classifier: Any, every_class: bool = False) -> "Answers[Classification]":
    """Return how a classifier of texts or images answers."""
    several, labels = classifier.several, classifier.labels if every_class else ()

    def fields(found: "Classification") -> dict[str, Any]:
        shares = found.probabilities
        best: dict[str, Any] = {"labels": found.labels}
        if not several:
            best = {"label": found.label or None, "probability": shares.get(found.label)}
        cut = {"cut": True} if found.cut else {}
        of_classes = {f"probability_{label}": shares.get(label) for label in labels}
        return {**best, "probabilities": shares, **of_classes, **cut}

    def line(found: "Classification", given: Given) -> str:
        if not found.probabilities:
            return ""
        shares = {label: f"{share:.4f}" for label, share in found.probabilities.items()}
        columns = [",".join(map(one_column, found.labels)), ",".join(shares[label] for label in found.labels)]
        if every_class:  # ties stay in the model's order
            ranked = sorted(found.probabilities, key=lambda label: -found.probabilities[label])
            columns = [column for label in ranked for column in (one_column(label), shares[label])]
        image = given.values.get("image")
        return "\t".join([*([] if image is None else [one_column(str(image))]), *columns])

    best = ("labels",) if several else ("label", "probability")
    images = classifier.recipe.rules.images
    return Answers(
        ("image",) if images else ("text", "second"),
        read_image if images else read_text,
        classifier.stream_images if images else classifier.stream_texts,
        fields,
        (*best, *(f"probability_{label}" for label in labels)),
        line,
        takes=("refused",) if images else ("ready", "name"),
        between=",",
    )
