"""How classifiers answer, of texts, images and questions about images: labels and probabilities in every form."""

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from heedful.base.columns import one_column
from heedful.data.corpora.images import AskedImage, locate_image, make_image_question
from heedful.tasks.shared.answering.answers import Answers, Given, read_image, read_text

if TYPE_CHECKING:
    from heedful.tasks.classify.classification import ImageAnswer
    from heedful.tasks.classify.image_models import ImageAnswerer
    from heedful.tasks.classify.model import Classification


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


def image_answers_of(answerer: "ImageAnswerer", n_best: int = 1) -> "Answers[Any]":
    """Return how a model answers questions about images; --n-best limits what is shown, and `nbest` of JSON."""

    def read(values: Mapping[str, Any], where: str) -> AskedImage:
        image = values["image"]
        path = locate_image(image, "", where) if isinstance(image, str) else image
        asked = make_image_question(values["question"], where=where)
        return AskedImage(read_image({"image": path}, where), (asked,))

    def line(found: "ImageAnswer", given: Given) -> str:
        best = list(found.probabilities.items())[:n_best]
        return "\t".join(f"{one_column(text)}\t{share:.4f}" for text, share in best)

    def fields(found: "ImageAnswer") -> dict[str, Any]:
        best = islice(found.probabilities.items(), n_best)
        listed = [{"text": text, "probability": share} for text, share in best]
        return {
            "answer": found.text,
            "probability": found.probability,
            "probabilities": found.probabilities,
            **({"nbest": listed} if n_best > 1 else {}),
        }

    columns, takes = ("answer", "probability"), ("ready", "refused")
    return Answers(("image", "question"), read, answerer.stream_asked, fields, columns, line, takes=takes)
