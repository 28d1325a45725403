"""One model of each family: its recipe, what it is asked to explain, and what is photographed of the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scripts.gallery.photographs import Shot

ATTENTION, CLASSES, PREDICTIONS = "attention-title", "classes-title", "predictions-title"


@dataclass(frozen=True)
class Family:
    """A model, by a recipe of this folder, a recipe that ships with Heedful, or a model of the tests, and its page."""

    model: str
    explained: Sequence[str]  # arguments of `heedful explain`
    shots: Sequence[Shot]


REVIEW: Final = "We saw it on a Sunday. The plot was clever. My brother bought the tickets. I found the ending moving."
REPORT: Final = (
    "It was a quiet week. On Monday, Clara Berg found 17 keys in the cave. Emil Holm was at the market at noon and "
    "sold twelve kites."
)
FAMILIES: Final[Mapping[str, Family]] = {
    "images": Family(
        "images.toml",
        ["star.png"],
        [
            Shot("gallery/images.png", [CLASSES, ATTENTION]),
            Shot("gallery/images-dark.png", [CLASSES, ATTENTION], theme="dark"),
        ],
    ),
    "captions": Family("captions.toml", ["scene.png"], [Shot("gallery/captions.png", ["looked-title"])]),
    "questions": Family(
        "questions.toml",
        ["scene.png", "--question", "what colour is the star ?"],
        [Shot("gallery/questions.png", [CLASSES, ATTENTION])],
    ),
    "reviews": Family("reviews.toml", ["--text", REVIEW], [Shot("gallery/reviews.png", [CLASSES, "document-title"])]),
    "masks": Family(
        "masks.toml",
        ["--text", "Clara Berg came [MASK] on Monday after a visit in the [MASK] ."],
        [Shot("gallery/masks.png", [PREDICTIONS])],
    ),
    "tags": Family(
        "tags.toml",
        ["--text", "On Monday , Clara Berg found 17 silver coins in the town hall ."],
        [Shot("gallery/tags.png", [PREDICTIONS])],
    ),
    "reader": Family(
        "reports-answers",
        ["--text", REPORT, "--question", "Where were keys found by Clara Berg?"],
        [
            Shot("gallery/reader.png", [CLASSES, ATTENTION]),
            Shot("gallery/reader-narrow.png", [CLASSES, ATTENTION], width=420),
        ],
    ),
    "language": Family(
        "language.toml",
        ["--text", "The witch listens to the pirates ."],
        [Shot("gallery/language.png", [PREDICTIONS, ATTENTION])],
    ),
    "recurrent": Family(
        "recurrent.toml",
        ["--text", "the third of March, nineteen ninety-eight"],
        [
            Shot("gallery/recurrent.png", ["alignment-title"]),
            Shot("gallery/beam-dark.png", ["beam-title"], theme="dark", width=1000),
            Shot("gallery/gates.png", ["gates-title"], ["input[name=gate][value=update]"]),
        ],
    ),
    "parser": Family(
        "tests/golden/bundles/parser",
        ["--text", "the dog sees a small fish today"],
        [Shot("gallery/parser.png", ["parse-title"])],
    ),
}
