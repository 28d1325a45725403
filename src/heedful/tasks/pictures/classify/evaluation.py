"""Evaluation of a classifier on pictures with labels."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.data.pictures.reading import Picture
from heedful.data.pictures.stores import class_numbers
from heedful.errors import UserError
from heedful.metrics.classification import ClassificationResult, class_loss, decide_classes, mark_classes
from heedful.tasks.shared.classes.class_scores import ClassScores
from heedful.tasks.shared.classes.classification import classifications
from heedful.tasks.shared.streaming import CHUNK, chunks


@dataclass(frozen=True, eq=False, kw_only=True)
class PictureEvaluation(ClassScores):
    """Scores of a classifier on pictures, and its classifications."""

    noun = "picture"

    pictures: tuple[Picture, ...]  # with the true labels

    def rows(self) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield the true labels of each picture, and the name of its file, or its place in an array."""
        return ((picture.labels, (picture.where,)) for picture in self.pictures)


class ScoresPictures(Protocol):
    """What is asked of a classifier: see `PictureClassifier`."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes."""
        ...

    @property
    def several(self) -> bool:
        """Whether a picture may have several labels, or none."""
        ...

    def scores(self, pictures: Sequence[Picture]) -> Float[Tensor, "B C"]:
        """Return the scores of every class for pictures."""
        ...


def evaluate_pictures(
    classifier: ScoresPictures,
    pictures: Sequence[Picture],
    *,
    name: str = "pictures",
    progress: Callable[[int], None] = lambda ready: None,
) -> PictureEvaluation:
    """Classify pictures and compare with their labels.

    `name` is the corpus's name in messages; `progress` is called with the number of pictures finished since the last
    call.
    """
    if not pictures:
        raise UserError(f"{name} has no picture to classify.")
    labels, several = classifier.labels, classifier.several
    true = mark_classes(class_numbers(pictures, labels, name), len(labels))
    began, parts = time.perf_counter(), []
    for part in chunks(pictures, CHUNK):
        parts.append(classifier.scores(part))
        progress(len(part))
    scores_BC = torch.cat(parts)
    seconds = time.perf_counter() - began
    return PictureEvaluation(
        pictures=tuple(pictures),
        found=tuple(classifications(scores_BC, labels, several)),
        result=ClassificationResult(labels, true, decide_classes(scores_BC, several)),
        loss=class_loss(scores_BC, true, several),
        several=several,
        seconds=seconds,
    )
