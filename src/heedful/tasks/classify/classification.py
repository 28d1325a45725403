"""From scores of classes to classes: those of a text or an image, and the answer to a question about an image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from heedful.metrics.classification import ClassificationResult, mark_classes
from heedful.tasks.shared.pooled.sparse_regression import Features, Loss, Penalties


@dataclass(frozen=True)
class Classification:
    """The classification of a text or an image; empty for a blank text, and for an image that cannot be read."""

    labels: tuple[str, ...]  # one label, or any number if the model has several labels, the most likely first
    probabilities: Mapping[str, float]  # probability of every class; they sum to one if a text has one label
    cut: bool = False  # whether the text is longer than the model reads (`data.max_length`), and was cut

    @property
    def label(self) -> str:
        """Most likely label; an empty name where there is none."""
        return self.labels[0] if self.labels else ""


BLANK: Final = Classification((), {})


def classifications(scores_BC: Float[Tensor, "B C"], labels: Sequence[str], several: bool) -> list[Classification]:
    """Turn scores of these classes into classifications; `several` says whether more than one may apply."""
    shares = class_probabilities(scores_BC, several).tolist()
    found = []
    for row, said in zip(shares, decide_classes(scores_BC, several), strict=True):
        most_likely_first = sorted(np.flatnonzero(said).tolist(), key=row.__getitem__, reverse=True)
        chosen = tuple(labels[index] for index in most_likely_first)
        found.append(Classification(chosen, dict(zip(labels, row, strict=True))))
    return found


@dataclass(frozen=True)
class ImageAnswer:
    """The answer to a question about an image: the most likely one of those that training had."""

    text: str
    probability: float
    probabilities: Mapping[str, float]  # of every answer, most likely first


def image_answers(scores_QC: Float[Tensor, "Q C"], answers: Sequence[str]) -> list[ImageAnswer]:
    """Turn scores of these answers into the answers to questions."""
    found = []
    for row in scores_QC.softmax(dim=1).tolist():
        ranked = sorted(zip(answers, row, strict=True), key=lambda share: -share[1])
        found.append(ImageAnswer(*ranked[0], dict(ranked)))
    return found


def compare_classes(
    scores_BC: Float[Tensor, "B C"],
    classes: Sequence[Sequence[int]],
    labels: tuple[str, ...],
    several: bool = False,
    noun: str = "text",
) -> ClassificationResult:
    """Decide for classes by their scores, and compare with the true ones, given by number; `noun` has them."""
    true = mark_classes(classes, len(labels))
    loss = class_loss(scores_BC, true, several)
    return ClassificationResult(labels, true, decide_classes(scores_BC, several), loss, several, noun)


def class_probabilities(scores_BC: Float[Tensor, "B C"], several: bool) -> Float[Tensor, "B C"]:
    """Return the softmax of the scores, or, if a text can have several classes, their sigmoid."""
    return scores_BC.sigmoid() if several else scores_BC.softmax(dim=1)


def class_loss(scores_BC: Float[Tensor, "B C"], true: NDArray[np.bool_], several: bool) -> float:
    """Return the mean over texts of -log P(true classes); with several labels, summed over all classes."""
    aims_BC = torch.from_numpy(true).to(scores_BC.dtype)
    losses = F.binary_cross_entropy_with_logits if several else F.cross_entropy
    return float(losses(scores_BC, aims_BC, reduction="sum")) / len(true)


def decide_classes(scores_BC: Float[Tensor, "B C"], several: bool) -> NDArray[np.bool_]:
    """Choose the class with the highest score, or, with several labels, all classes with probability above 1/2."""
    if several:
        return (scores_BC > 0).numpy()
    said = np.zeros(tuple(scores_BC.shape), np.bool_)
    said[np.arange(len(said)), scores_BC.argmax(dim=1).numpy()] = True
    return said


@dataclass(frozen=True)
class ClassLoss(Loss):
    """-log P of the true classes: of one class, or of each of several by itself."""

    penalties: ClassVar = Penalties((0.5, 2.0, 10.0, 40.0, 160.0))

    several: bool

    def value(self, scores_BC: Float[Tensor, "B C"], true_BC: Float[Tensor, "B C"]) -> float:
        """Return the mean loss of rows."""
        return class_loss(scores_BC, true_BC.bool().numpy(), self.several)

    def slopes(self, scores_BC: Float[Tensor, "B C"], true_BC: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """Return the gradient of each row's loss."""
        return class_probabilities(scores_BC, self.several) - true_BC

    def telling(self, x: Features, true_BC: Float[Tensor, "B C"]) -> Float[Tensor, "J"]:
        """Return (1 + r_j / |r|) / 2, r_j = max_c |log P(j | c) / P(j | not c)|      Wang and Manning 2012

        P(j | c) = (1 + texts of c with the feature) / sum_j
        """
        with_JC = x.sums_JC(true_BC)
        told_JC, others_JC = 1 + with_JC, 1 + x.texts_J().unsqueeze(1) - with_JC
        return x.relative(((told_JC / told_JC.sum(0)).log() - (others_JC / others_JC.sum(0)).log()).abs().amax(1))

    def right(self, scores_BC: Float[Tensor, "B C"], true_BC: Float[Tensor, "B C"]) -> float | None:
        """Return the share of rows whose class is right; with several classes, the loss decides."""
        if self.several:
            return None
        return float((decide_classes(scores_BC, self.several) == true_BC.bool().numpy()).all(axis=1).mean())
