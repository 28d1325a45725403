"""Evaluation of a classifier on images with labels."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.base.errors import UserError
from heedful.data.images.reading import LabelledImage
from heedful.data.images.stores import class_numbers
from heedful.metrics.classification import ClassificationResult, class_loss, decide_classes, mark_classes
from heedful.tasks.shared.classes.class_scores import ClassScores
from heedful.tasks.shared.classes.classification import classifications
from heedful.tasks.shared.streaming import CHUNK, chunks


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageEvaluation(ClassScores):
    """Scores of a classifier on images, and its classifications."""

    noun = "image"

    images: tuple[LabelledImage, ...]  # with the true labels

    def rows(self) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield the true labels of each image, and the name of its file, or its place in an array."""
        return ((image.labels, (image.where,)) for image in self.images)


class ScoresImages(Protocol):
    """What is asked of a classifier: see `ImageClassifier`."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes."""
        ...

    @property
    def several(self) -> bool:
        """Whether an image may have several labels, or none."""
        ...

    def scores(self, images: Sequence[LabelledImage]) -> Float[Tensor, "B C"]:
        """Return the scores of every class for images."""
        ...


def evaluate_images(
    classifier: ScoresImages,
    images: Sequence[LabelledImage],
    *,
    name: str = "images",
    progress: Callable[[int], None] = lambda ready: None,
) -> ImageEvaluation:
    """Classify images and compare with their labels.

    `name` is the corpus's name in messages; `progress` is called with the number of images finished since the last
    call.
    """
    if not images:
        raise UserError(f"{name} has no image to classify.")
    labels, several = classifier.labels, classifier.several
    true = mark_classes(class_numbers(images, labels, name), len(labels))
    began, parts = time.perf_counter(), []
    for part in chunks(images, CHUNK):
        parts.append(classifier.scores(part))
        progress(len(part))
    scores_BC = torch.cat(parts)
    seconds = time.perf_counter() - began
    return ImageEvaluation(
        images=tuple(images),
        found=tuple(classifications(scores_BC, labels, several)),
        result=ClassificationResult(labels, true, decide_classes(scores_BC, several)),
        loss=class_loss(scores_BC, true, several),
        several=several,
        seconds=seconds,
    )
