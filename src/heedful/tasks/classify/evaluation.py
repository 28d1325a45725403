"""Evaluation of a classifier on texts with labels."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.base.errors import UserError
from heedful.data.corpora.texts import Text, classes_of
from heedful.metrics.classification import ClassificationResult, class_loss, decide_classes, mark_classes
from heedful.tasks.shared.classes.class_scores import ClassScores
from heedful.tasks.shared.classes.classification import Classification
from heedful.tasks.shared.streaming import CHUNK, chunks


class Classifies(Protocol):
    """What is asked of a classifier: see `TextClassifier`."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes."""
        ...

    @property
    def several(self) -> bool:
        """Whether a text may have several labels, or none."""
        ...

    def formed(self, text: Text) -> Text:
        """Return a text as the model reads it."""
        ...

    def scores(self, texts: Sequence[Text]) -> Float[Tensor, "B C"]:
        """Return the scores of every class for normalised texts."""
        ...

    def classified(self, scores_BC: Float[Tensor, "B C"]) -> list[Classification]:
        """Turn scores into classifications."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassEvaluation(ClassScores):
    """Scores of a classifier on texts, and its classifications."""

    noun = "text"

    texts: tuple[Text, ...]  # texts as read, with the true labels; none is blank

    @property
    def texts_per_second(self) -> float:
        """Number of texts classified per second."""
        return self.per_second

    def lines(self) -> Iterator[int]:
        """Yield the line of each text in its file; 0 where there is no file."""
        return (text.line for text in self.texts)

    def lengths(self) -> tuple[Sequence[int], str]:
        """Return the number of words of each text or pair, separated by spaces."""
        return [len(f"{text.text} {text.second or ''}".split()) for text in self.texts], "text"

    def rows(self) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield the true labels of each text, and the text, or the two of a pair."""
        for text in self.texts:
            yield text.labels, [text.text, *([] if text.second is None else [text.second])]


def evaluate_classifier(
    classifier: Classifies,
    texts: Sequence[Text],
    *,
    name: str = "texts",
    progress: Callable[[int], None] = lambda ready: None,
) -> ClassEvaluation:
    """Classify texts and compare with their labels; blank ones are left out, as in training.

    `name` is the corpus's name in messages; `progress` is called with the number of texts finished since the last call.
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
        texts=read,
        found=tuple(classifier.classified(scores_BC)),
        result=ClassificationResult(classifier.labels, true, decide_classes(scores_BC, classifier.several)),
        loss=class_loss(scores_BC, true, classifier.several),
        several=classifier.several,
        blank=len(texts) - len(read),
        seconds=seconds,
    )
