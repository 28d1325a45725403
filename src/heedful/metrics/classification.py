"""How well texts are classified: accuracy, F1, and which classes are taken for which.

    precision = right / said      recall = right / true      F1 = 2 right / (said + true)

Macro F1 is the mean over classes; micro F1 counts all decisions alike, and is the accuracy where a text has one class.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.batches.texts import TextBatch
from heedful.models.networks import Classifier

Counts = NDArray[np.int64]
_Z: Final = 1.959963984540054  # 95% of a normal distribution are less than so many deviations from its mean


@torch.inference_mode()
def class_scores(model: Classifier, batches: Iterable[TextBatch]) -> Iterator[Float[Tensor, "B C"]]:
    """The scores of every class, of each batch's real texts. The model is used as it is: put it into `eval` mode."""
    device = next(model.parameters()).device
    for batch in batches:
        yield model(batch.to(device).text)[: batch.sentences].float().cpu()


@dataclass(frozen=True, eq=False)
class ClassificationResult:
    """What was said of texts beside what is true, class by class."""

    labels: tuple[str, ...]
    true: NDArray[np.bool_]  # texts x classes
    said: NDArray[np.bool_]

    @property
    def texts(self) -> int:
        """How many there are."""
        return len(self.true)

    @property
    def accuracy(self) -> float:
        """The share of texts of which exactly the true classes were said."""
        return self.right_texts / self.texts

    @property
    def right_texts(self) -> int:
        """Of how many texts exactly the true classes were said."""
        return int((self.true == self.said).all(axis=1).sum())

    @property
    def accuracy_interval(self) -> tuple[float, float]:
        """Between these the accuracy on all texts of this kind is, with 95% certainty."""
        return wilson_interval(self.right_texts, self.texts)

    @property
    def right(self) -> Counts:
        """How many texts of each class were said to be of it."""
        return (self.true & self.said).sum(axis=0)

    @property
    def precision(self) -> NDArray[np.float64]:
        """Of what was said to be of a class, the share that is; 0 where nothing was."""
        return _ratio(self.right, self.said.sum(axis=0))

    @property
    def recall(self) -> NDArray[np.float64]:
        """Of what is of a class, the share that was said to be; 0 where nothing is."""
        return _ratio(self.right, self.true.sum(axis=0))

    @property
    def f1(self) -> NDArray[np.float64]:
        """The harmonic mean of precision and recall, of each class."""
        return _ratio(2 * self.right, self.said.sum(axis=0) + self.true.sum(axis=0))

    @property
    def macro_f1(self) -> float:
        """The mean over classes."""
        return float(self.f1.mean())

    @property
    def micro_f1(self) -> float:
        """Of all decisions."""
        return float(_ratio(2 * self.right.sum(), self.said.sum() + self.true.sum()))

    @property
    def confusion(self) -> Counts:
        """How many texts of each class (rows) were said to be of each (columns); for texts of one class."""
        return self.true.astype(np.int64).T @ self.said.astype(np.int64)


def wilson_interval(right: int, count: int) -> tuple[float, float]:
    """(p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)      Wilson 1927

    The shares p' of which `right` of `count` is no more than z deviations away, |p - p'| <= z sqrt(p' (1 - p') / n).
    """
    share, z_squared = right / count, _Z**2 / count
    middle = share + z_squared / 2
    reach = math.sqrt(z_squared * (share * (1 - share) + z_squared / 4))
    low, high = ((middle + sign * reach) / (1 + z_squared) for sign in (-1, 1))
    return max(0.0, low), min(1.0, high)  # rounding may go beyond


def class_probabilities(scores_BC: Float[Tensor, "B C"], several: bool) -> Float[Tensor, "B C"]:
    """softmax of the scores, where classes exclude each other; where a text has several, each class by itself."""
    return scores_BC.sigmoid() if several else scores_BC.softmax(dim=1)


def class_loss(scores_BC: Float[Tensor, "B C"], true: NDArray[np.bool_], several: bool) -> float:
    """-log P of the true classes, by text: of several labels summed over all classes, said or not."""
    aims_BC = torch.from_numpy(true).to(scores_BC.dtype)
    losses = F.binary_cross_entropy_with_logits if several else F.cross_entropy
    return float(losses(scores_BC, aims_BC, reduction="sum")) / len(true)


def decide_classes(scores_BC: Float[Tensor, "B C"], several: bool) -> NDArray[np.bool_]:
    """The classes that scores say: the highest, or all that are more likely than not."""
    if several:
        return (scores_BC > 0).numpy()
    said = np.zeros(tuple(scores_BC.shape), np.bool_)
    said[np.arange(len(said)), scores_BC.argmax(dim=1).numpy()] = True
    return said


def mark_classes(classes: Sequence[Sequence[int]], count: int) -> NDArray[np.bool_]:
    """The true classes of texts, out of so many."""
    true = np.zeros((len(classes), count), np.bool_)
    for row, of_text in enumerate(classes):
        true[row, list(of_text)] = True
    return true


def _ratio(part: Counts, whole: Counts) -> NDArray[np.float64]:
    return np.where(whole > 0, part / np.maximum(whole, 1), 0.0)
