"""The line that a classifier has to beat: logistic regression on n-grams of tokens, by tf-idf."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.data.collate import gather
from heedful.data.epochs.plan import Indices, spread
from heedful.data.token_store import TokenStore
from heedful.metrics.classification import mark_classes
from heedful.metrics.rows import validation_scores
from heedful.tasks.classify.classification import class_loss, class_probabilities, compare_classes, decide_classes
from heedful.tasks.classify.metrics import METRICS
from heedful.tasks.shared.linear.ngrams import fit_stores, ngrams_of_rows


@dataclass(frozen=True)
class ClassLoss:
    """-log P of the true classes: of one class, or of each of several by itself."""

    several: bool

    def value(self, scores_BC: Float[Tensor, "B C"], true_BC: Float[Tensor, "B C"]) -> float:
        """Return the mean loss of rows."""
        return class_loss(scores_BC, true_BC.bool().numpy(), self.several)

    def slopes(self, scores_BC: Float[Tensor, "B C"], true_BC: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """Return the gradient of each row's loss."""
        return class_probabilities(scores_BC, self.several) - true_BC

    def right(self, scores_BC: Float[Tensor, "B C"], true_BC: Float[Tensor, "B C"]) -> float | None:
        """Return the share of rows whose class is right; with several classes, the loss decides."""
        if self.several:
            return None
        return float((decide_classes(scores_BC, self.several) == true_BC.bool().numpy()).all(axis=1).mean())


class Baseline:
    """Trains the regression when its scores are first asked for, and keeps them."""

    def __init__(
        self, train: Sequence[TokenStore], valid: Sequence[TokenStore], labels: Sequence[str], several: bool
    ) -> None:
        self.train, self._valid, self._labels, self._several = train, valid, tuple(labels), several
        self._scores: dict[str, float] | None = None

    def scores(self, most: int | None, say: Callable[[str], None], metric: str = "accuracy") -> dict[str, float]:
        """Return the scores on the validation texts that the model is scored on: see `evaluate_stores`.

        What is said the first time begins with the `metric` that models are compared by.
        """
        if self._scores is None:
            began, count = time.perf_counter(), sum(map(len, self._valid))
            rows, classes = spread(most or count, count), len(self._labels)
            with torch.inference_mode(False):
                model, sample = fit_stores(
                    self.train,
                    lambda known: torch.from_numpy(mark_classes(classes_of_rows(self.train, known), classes)).float(),
                    ClassLoss(self._several),
                )
                scores_BC = model.scores(ngrams_of_rows(self._valid, rows))
            result = compare_classes(scores_BC, classes_of_rows(self._valid, rows), self._labels, self._several)
            self._scores = validation_scores(METRICS, result)
            names = [name for name in dict.fromkeys((metric, "accuracy")) if name in self._scores]
            named = ", ".join(f"{name} {self._scores[name]:.4g}" for name in names)
            say(f"the line to beat: {named}, of logistic regression on {sample} ({time.perf_counter() - began:.1f} s)")
        return self._scores


def classes_of_rows(stores: Sequence[TokenStore], rows: Indices) -> list[list[int]]:
    """Return the classes of rows, counted through all stores."""
    values, lengths = gather(stores, "label", rows)
    return [part.tolist() for part in np.split(values, np.cumsum(lengths)[:-1])]
