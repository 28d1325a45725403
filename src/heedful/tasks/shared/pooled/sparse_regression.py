"""Logistic and ridge regression on sparse features, by L-BFGS: deterministic, and from zero.

Shape letter of this file: J  features
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

_SHARES: Final = (0.25, 0.5, 1.0)  # of the weights of n-grams of two or more tokens
_FIRST_SHARE: Final = 0.5
_CLOSE: Final = 0.4  # standard deviations of an accuracy: below it, accuracies are the same
_ITERATIONS: Final = 50
_TRIAL_ITERATIONS: Final = 20
_TRIAL_SCORES: Final = 3_000_000  # features of texts in cross-validation x classes, about: of more, it reads a part
_FOLDS: Final = 3


class Matrix(Protocol):
    """A matrix X of rows x features."""

    def times(self, weights_JC: Float[Tensor, "J C"], /) -> Float[Tensor, "B C"]:
        """Return X W."""

    def transposed(self, columns: int, /) -> "Matrix":
        """Return X^T, given the number of features."""


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
        return F.embedding_bag(self.feature, weights_JC, self._starts_B, mode="sum", per_sample_weights=self.value)

    @cached_property
    def _starts_B(self) -> Int[Tensor, "B"]:
        """Where the features of each row begin; kept, as an optimizer multiplies by the same rows again and again."""
        return torch.searchsorted(self.text, torch.arange(self.rows))

    def share(self, longer_J: Bool[Tensor, "J"], share: float) -> "Features":
        """Multiply the values of some features by a share; rows then have the length 1."""
        return self.scaled(torch.where(longer_J, share, 1.0))

    def normalized(self) -> "Features":
        """Return rows of the length 1."""
        squares_B = self.value.new_zeros(self.rows).index_add(0, self.text, self.value.square())
        return replace(self, value=self.value / squares_B.clamp(min=1e-12).sqrt()[self.text])

    def scaled(self, factor_J: Float[Tensor, "J"]) -> "Features":
        """Multiply columns by factors; rows then have the length 1."""
        return replace(self, value=self.value * factor_J[self.feature]).normalized()

    def texts_J(self) -> Int[Tensor, "J"]:
        """Return how many texts have each feature."""
        return torch.bincount(self.feature)

    def sums_JC(self, values_BC: Float[Tensor, "B C"]) -> Float[Tensor, "J C"]:
        """Return for each feature the sum of the values of texts that have it."""
        columns = int(self.feature.max()) + 1 if len(self.feature) else 0
        return values_BC.new_zeros(columns, values_BC.shape[1]).index_add_(0, self.feature, values_BC[self.text])

    def relative(self, told_J: Float[Tensor, "J"]) -> Float[Tensor, "J"]:
        """Return (1 + r_j / |r|) / 2, with the root mean square |r| over the features of all texts.

        Half of it stays 1, as what few texts tell of a feature is unsure: of 500 to 2,000 reviews, that is about best.
        """
        return (1 + told_J / told_J.square()[self.feature].mean().sqrt().clamp(min=1e-6)) / 2

    def select(self, keep_B: Bool[Tensor, "B"]) -> "Features":
        """Return some rows."""
        numbers_B, stays = keep_B.cumsum(0) - 1, keep_B[self.text]
        return Features(int(keep_B.sum()), numbers_B[self.text[stays]], self.feature[stays], self.value[stays])

    def renumber(self, numbers_J: Int[Tensor, "J"]) -> "Features":
        """Return other columns, without those whose number is -1."""
        feature = numbers_J[self.feature]
        stays = feature >= 0
        return Features(self.rows, self.text[stays], feature[stays], self.value[stays])

    def transposed(self, columns: int) -> "Features":
        """Return X^T."""
        order = self.feature.argsort(stable=True)
        return Features(columns, self.feature[order], self.text[order], self.value[order])


@dataclass(frozen=True)
class Penalties:
    """How the settings of a regression are chosen."""

    strengths: Sequence[float]  # inverse strengths of the L2 penalty, as scikit-learn's C
    per_row: bool = False  # whether the best penalty on the mean loss stays the same with more rows
    close: float = 1.0  # times the lowest loss: below it, losses are the same


class Loss(ABC):
    """What a regression minimises."""

    penalties: ClassVar[Penalties]

    @abstractmethod
    def value(self, scores_BC: Float[Tensor, "B C"], true_BC: Float[Tensor, "B C"]) -> float:
        """Return the mean loss of rows."""

    @abstractmethod
    def slopes(self, scores_BC: Float[Tensor, "B C"], true_BC: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """Return the gradient of each row's loss."""

    @abstractmethod
    def telling(self, x: Features, true_BC: Float[Tensor, "B C"]) -> Float[Tensor, "J"]:
        """Return factors of features, the higher the more one tells about what is true."""

    def right(self, scores_BC: Float[Tensor, "B C"], true_BC: Float[Tensor, "B C"]) -> float | None:
        """Return the share of rows whose prediction is right; None where the loss alone tells settings apart."""
        return None


class SquaredLoss(Loss):
    """(y - t)^2 / 2, summed over columns: with a penalty, ridge regression."""

    # Of 500 to 20,000 reviews, the best penalty on the mean error was about the same: 1 / (strength * rows) = 5e-5.
    penalties = Penalties((1.0, 3.0, 10.0, 30.0), per_row=True, close=1.03)

    def value(self, scores_BC: Float[Tensor, "B C"], true_BC: Float[Tensor, "B C"]) -> float:
        """Return the mean loss of rows."""
        return float((scores_BC - true_BC).square().sum(1).mean() / 2)

    def slopes(self, scores_BC: Float[Tensor, "B C"], true_BC: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """Return the gradient of each row's loss."""
        return scores_BC - true_BC

    def telling(self, x: Features, true_BC: Float[Tensor, "B C"]) -> Float[Tensor, "J"]:
        """Return (1 + r_j / |r|) / 2, r_j = max_c |sum of t_c - mean(t_c) over n_j texts with j| / (1 + n_j)."""
        sums_JC = x.sums_JC(true_BC - true_BC.mean(0))
        return x.relative((sums_JC.abs() / (1 + x.texts_J().unsqueeze(1))).amax(1))


@dataclass(frozen=True)
class Trial:
    """How well a regression does on the texts that it has not seen."""

    right: float | None  # share of the texts; None where the loss decides
    loss: float


@torch.no_grad()
def minimise(
    x: Features,
    longer_J: Bool[Tensor, "J"],
    true_BC: Float[Tensor, "B C"],
    weights_JC: Float[Tensor, "J C"],
    bias_C: Float[Tensor, "C"],
    kind: Loss,
    telling: bool = False,
) -> Float[Tensor, "J"]:
    """Minimise the mean loss of X W + b with an L2 penalty on W; `weights_JC` and `bias_C` are changed in place.

    `telling`: features are multiplied by how much they tell, `Loss.telling`. Return what the columns of X were
    multiplied by: that, and the share of longer n-grams, see `choose_settings`.
    """
    share, strength = choose_settings(x, longer_J, true_BC, kind, telling)
    factor_J = torch.where(longer_J, share, 1.0)
    if telling:
        factor_J = factor_J * kind.telling(x, true_BC)
    minimise_with(x.scaled(factor_J), true_BC, weights_JC, bias_C, kind, strength, _ITERATIONS)
    return factor_J


@torch.no_grad()
def choose_settings(
    x: Features, longer_J: Bool[Tensor, "J"], true_BC: Float[Tensor, "B C"], kind: Loss, telling: bool = False
) -> tuple[float, float]:
    """Return the share of the weights of longer n-grams and the inverse strength of the penalty, by cross-validation.

    The strength is the best one with the first share: of those about as accurate, the one with the lowest loss. The
    share is the best one with that strength: of those about as accurate the largest, since longer n-grams gain more
    from the texts that cross-validation leaves out. Topics are told by single words, which longer n-grams only
    outweigh; other classes by the order of words.
    """
    texts, strengths = len(true_BC), kind.penalties.strengths
    tried_B = torch.arange(texts) % max(1, -(-len(x.value) * true_BC.shape[1] // _TRIAL_SCORES)) == 0
    tried, count = x.select(tried_B), int(tried_B.sum())
    if count < _FOLDS:
        return _FIRST_SHARE, strengths[-1]
    known = cross_validate(tried.share(longer_J, _FIRST_SHARE), true_BC[tried_B], kind, strengths, telling)
    strength = min(_close(known, count), key=lambda strength: known[strength].loss)
    rows_known = count * (_FOLDS - 1) / _FOLDS
    of_all = strength * rows_known / texts if kind.penalties.per_row else strength
    if not bool(longer_J[tried.feature].any()):
        return _FIRST_SHARE, of_all
    path, shares = [each for each in strengths if each <= strength][-2:], {_FIRST_SHARE: known[strength]}
    for share in _SHARES:
        if share != _FIRST_SHARE:
            given = tried.share(longer_J, share)
            shares[share] = cross_validate(given, true_BC[tried_B], kind, path, telling)[strength]
    return max(_close(shares, count, kind.penalties.close)), of_all


def cross_validate(
    x: Features, true_BC: Float[Tensor, "B C"], kind: Loss, strengths: Sequence[float], telling: bool = False
) -> dict[float, Trial]:
    """Return how well regressions with these inverse strengths do on folds that they have not seen."""
    fold_B, classes = torch.arange(1, x.rows + 1) % _FOLDS, true_BC.shape[1]
    found = {strength: Trial(None, 0.0) for strength in strengths}
    for fold in range(_FOLDS):
        known, held, true = x.select(fold_B != fold), x.select(fold_B == fold), true_BC[fold_B == fold]
        columns, feature = known.feature.unique(return_inverse=True)
        known, size = replace(known, feature=feature), held.rows / x.rows
        numbers_J = torch.full((int(x.feature.max()) + 1 if len(x.feature) else 1,), -1)
        numbers_J[columns] = torch.arange(len(columns))
        held = held.renumber(numbers_J).normalized()  # as the features of other texts: without those that are new
        if telling:
            told_J = kind.telling(known, true_BC[fold_B != fold])  # the other folds alone: what is held out is unknown
            known, held = known.scaled(told_J), held.scaled(told_J)
        weights_JC, bias_C = torch.zeros(len(columns), classes), torch.zeros(classes)
        for strength in strengths:  # each begins with the solution of a stronger penalty
            minimise_with(known, true_BC[fold_B != fold], weights_JC, bias_C, kind, strength, _TRIAL_ITERATIONS)
            scores_BC = held.times(weights_JC) + bias_C
            right, before = kind.right(scores_BC, true), found[strength]
            so_far = None if right is None else (before.right or 0.0) + size * right
            found[strength] = Trial(so_far, before.loss + size * kind.value(scores_BC, true))
    return found


def _close(trials: Mapping[float, Trial], texts: int, close_loss: float = 1.0) -> list[float]:
    """Return the settings with about the highest accuracy; where the loss decides, those with about the lowest."""
    shares = {setting: trial.right for setting, trial in trials.items() if trial.right is not None}
    if not shares:
        lowest = min(trial.loss for trial in trials.values())
        return [setting for setting, trial in trials.items() if trial.loss <= close_loss * lowest]
    best = max(shares.values())
    least = best - _CLOSE * (best * (1 - best) / texts) ** 0.5
    return [setting for setting, right in shares.items() if right >= least]


@torch.no_grad()
def minimise_with(
    x: Matrix,
    true_BC: Float[Tensor, "B C"],
    weights_JC: Float[Tensor, "J C"],
    bias_C: Float[Tensor, "C"],
    kind: Loss,
    strength: float,
    iterations: int,
) -> None:
    """Minimise the loss as `minimise` does, with this inverse strength of the penalty."""
    turned, texts = x.transposed(len(weights_JC)), len(true_BC)
    penalty = 1 / (strength * texts)
    optimizer = torch.optim.LBFGS(
        [weights_JC, bias_C], max_iter=iterations, history_size=6, line_search_fn="strong_wolfe", tolerance_grad=1e-5
    )

    def loss() -> float:
        with torch.no_grad():
            scores_BC = x.times(weights_JC) + bias_C
            errors_BC = kind.slopes(scores_BC, true_BC) / texts
            weights_JC.grad = turned.times(errors_BC) + penalty * weights_JC
            bias_C.grad = errors_BC.sum(0)
            return kind.value(scores_BC, true_BC) + penalty / 2 * float(weights_JC.square().sum())

    optimizer.step(loss)
