"""Logistic regression on sparse features, by L-BFGS: deterministic, and from zero.

Shape letter of this file: J  features
"""

from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.metrics.classification import class_loss, class_probabilities

_INVERSE_STRENGTHS: Final = (0.5, 2.0, 10.0, 40.0)  # of the L2 penalty, as scikit-learn's C: the best is taken
_ITERATIONS: Final = 50
_TRIAL_ITERATIONS: Final = 20
_TRIAL_VALUES: Final = 1_500_000  # features of texts in cross-validation, about: with more, it reads a part of them
_FOLDS: Final = 3


@dataclass(frozen=True, eq=False)
class Features:
    """A sparse matrix X of texts x features: its values in the order of rows."""

    rows: int
    text: Int[Tensor, "V"]  # row of each value
    feature: Int[Tensor, "V"]  # column of each value
    value: Float[Tensor, "V"]

    def times(self, weights_JC: Float[Tensor, "J C"]) -> Float[Tensor, "B C"]:
        """Return X W."""
        if not len(self.value):
            return weights_JC.new_zeros(self.rows, weights_JC.shape[1])
        starts = torch.searchsorted(self.text, torch.arange(self.rows))
        return F.embedding_bag(self.feature, weights_JC, starts, mode="sum", per_sample_weights=self.value)

    def select(self, keep_B: Bool[Tensor, "B"]) -> "Features":
        """Return some rows."""
        numbers_B, stays = keep_B.cumsum(0) - 1, keep_B[self.text]
        return Features(int(keep_B.sum()), numbers_B[self.text[stays]], self.feature[stays], self.value[stays])

    def transposed(self, columns: int) -> "Features":
        """Return X^T."""
        order = self.feature.argsort(stable=True)
        return Features(columns, self.feature[order], self.text[order], self.value[order])


@torch.no_grad()
def minimise(
    x: Features,
    true_BC: Float[Tensor, "B C"],
    weights_JC: Float[Tensor, "J C"],
    bias_C: Float[Tensor, "C"],
    several: bool,
) -> None:
    """Minimise the mean loss of X W + b with an L2 penalty on W; `weights_JC` and `bias_C` are changed in place."""
    strength = choose_strength(x, true_BC, len(weights_JC), several)
    minimise_with(x, true_BC, weights_JC, bias_C, several, strength, _ITERATIONS)


@torch.no_grad()
def choose_strength(x: Features, true_BC: Float[Tensor, "B C"], features: int, several: bool) -> float:
    """Return the inverse strength of the penalty that has the lowest loss in cross-validation."""
    tried_B = torch.arange(len(true_BC)) % max(1, -(-len(x.value) // _TRIAL_VALUES)) == 0
    if int(tried_B.sum()) < _FOLDS:
        return _INVERSE_STRENGTHS[-1]
    fold_B, losses = tried_B.cumsum(0) % _FOLDS, dict.fromkeys(_INVERSE_STRENGTHS, 0.0)
    for fold in range(_FOLDS):
        known_B, held_B = tried_B & (fold_B != fold), tried_B & (fold_B == fold)
        known, held = x.select(known_B), x.select(held_B)
        weights_JC, bias_C = torch.zeros(features, true_BC.shape[1]), torch.zeros(true_BC.shape[1])
        for strength in _INVERSE_STRENGTHS:  # each begins with the solution of a stronger penalty
            minimise_with(known, true_BC[known_B], weights_JC, bias_C, several, strength, _TRIAL_ITERATIONS)
            scores_BC = held.times(weights_JC) + bias_C
            losses[strength] += class_loss(scores_BC, true_BC[held_B].bool().numpy(), several) * held.rows
    return min(losses, key=losses.__getitem__)


@torch.no_grad()
def minimise_with(
    x: Features,
    true_BC: Float[Tensor, "B C"],
    weights_JC: Float[Tensor, "J C"],
    bias_C: Float[Tensor, "C"],
    several: bool,
    strength: float,
    iterations: int,
) -> None:
    """Minimise the loss as `minimise` does, with this inverse strength of the penalty."""
    turned, texts = x.transposed(len(weights_JC)), len(true_BC)
    penalty, true = 1 / (strength * texts), true_BC.bool().numpy()
    optimizer = torch.optim.LBFGS(
        [weights_JC, bias_C], max_iter=iterations, history_size=6, line_search_fn="strong_wolfe", tolerance_grad=1e-5
    )

    def loss() -> float:
        with torch.no_grad():
            scores_BC = x.times(weights_JC) + bias_C
            errors_BC = (class_probabilities(scores_BC, several) - true_BC) / texts
            weights_JC.grad = turned.times(errors_BC) + penalty * weights_JC
            bias_C.grad = errors_BC.sum(0)
            return class_loss(scores_BC, true, several) + penalty / 2 * float(weights_JC.square().sum())

    optimizer.step(loss)
