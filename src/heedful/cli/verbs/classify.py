"""`heedful classify MODEL [FILES...]`: one line out for every line in, or for every image."""

from typing import TYPE_CHECKING, Annotated

from heedful.base.columns import one_column
from heedful.base.errors import UserError
from heedful.cli.answering import AnsweringTexts
from heedful.cli.input import check_all_read, family_of, image_inputs
from heedful.cli.options import json_option, option, with_option_groups
from heedful.cli.output import Line

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
    several: bool  # whether an input may have several labels

    def line(found: "Classification", path: str | None = None) -> Line:
        if as_json:
            image = {} if path is None else {"image": path}
            labels = {"labels": found.labels} if several else {"label": found.label or None}
            return {**image, **labels, "probabilities": found.probabilities}
        if not found.probabilities:
            return ""
        shares = {label: f"{share:.4f}" for label, share in found.probabilities.items()}
        columns = [",".join(map(one_column, found.labels)), ",".join(shares[label] for label in found.labels)]
        if every_class:  # ties stay in the model's order
            ranked = sorted(found.probabilities, key=lambda label: -found.probabilities[label])
            columns = [column for label in ranked for column in (one_column(label), shares[label])]
        return "\t".join([*([] if path is None else [one_column(path)]), *columns])

    if family_of(asked.model) == "image_classifier":
        images = image_inputs(asked.inputs, asked.text)
        with asked.loading() as place:
            from heedful.tasks.classify.image_models import ImageClassifier  # after the quick checks

            reader = ImageClassifier.load(*place)
        several = reader.several
        check_all_read(asked.write_images("classifying", images, reader.stream, line, as_json=as_json))
        return
    entries = asked.open()
    with asked.loading() as place:
        from heedful.tasks.classify.model import load_classifier  # after the quick checks: torch takes seconds

        classifier = load_classifier(*place)
    several = classifier.several
    asked.write("classifying", entries, classifier.stream_texts, line, paired=classifier.paired)
