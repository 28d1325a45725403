"""A classifier judged on texts with labels."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from heedful.data.corpora.texts import Text, classes_of
from heedful.errors import UserError
from heedful.metrics.classification import ClassificationResult, class_loss, decide_classes, mark_classes
from heedful.tasks.classify.model import Classification, TextClassifier
from heedful.tasks.shared.streaming import CHUNK, chunks


@dataclass(frozen=True, eq=False)
class ClassEvaluation:
    """Scores of a classifier on texts, and what it said of them."""

    texts: tuple[Text, ...]  # as they were read, with the true labels; none is blank
    found: tuple[Classification, ...]
    judged: ClassificationResult
    loss: float  # -log P of the true labels, by text
    several: bool  # whether a text may have several labels
    blank: int  # texts that were left out
    seconds: float  # of classifying

    @property
    def texts_per_second(self) -> float:
        """Classified texts in a second."""
        return len(self.texts) / self.seconds


def evaluate_classifier(
    classifier: TextClassifier,
    texts: Sequence[Text],
    *,
    name: str = "texts",
    progress: Callable[[int], None] = lambda ready: None,
) -> ClassEvaluation:
    """Classify texts and compare with their labels; blank ones are left out, as in training.

    `name` is the corpus's in messages; `progress` is called with the number of texts that just got ready.
    """
    read = tuple(text for text in map(classifier.formed, texts) if not text.blank)
    if not read:
        raise UserError(f"{name} has no text to classify.")
    true = mark_classes(classes_of(read, classifier.labels, name), len(classifier.labels))
    began, parts = time.perf_counter(), []
    for part in chunks(read, CHUNK):
        parts.append(classifier.scores(part))
        progress(len(part))
    scores_BC = torch.cat(parts)
    seconds = time.perf_counter() - began
    return ClassEvaluation(
        read,
        tuple(classifier.classified(scores_BC)),
        ClassificationResult(classifier.labels, true, decide_classes(scores_BC, classifier.several)),
        class_loss(scores_BC, true, classifier.several),
        classifier.several,
        len(texts) - len(read),
        seconds,
    )
