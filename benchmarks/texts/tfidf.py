"""Logistic and ridge regression on tf-idf of words, with features and penalty chosen by cross-validation.

As scikit-learn's TfidfVectorizer with LogisticRegression or Ridge, whose settings it has, by torch alone.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.tasks.classify.classification import ClassLoss
from heedful.tasks.shared.pooled.sparse_regression import Features, Loss, SquaredLoss, minimise_with

_WORD: Final = re.compile(r"(?u)\b\w\w+\b")
STRENGTHS: Final = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # scikit-learn's C
RIDGE_STRENGTHS: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # 1 / scikit-learn's alpha
FOLDS: Final = 3
_ITERATIONS: Final = 40

Text = str | tuple[str, str]  # a text, or a pair of texts
Counts = Counter[str]
Score = Callable[[Tensor, NDArray[np.int64]], float]  # of predictions for these rows: the larger, the better


def cross_validated_accuracy(train: Sequence[tuple[str, str]], test: Sequence[tuple[str, str]]) -> float:
    """Return the test accuracy of logistic regression."""
    labels = sorted({label for _, label in train})
    true = np.array([labels.index(label) for _, label in train])

    def right(scores_BC: Tensor, rows: NDArray[np.int64]) -> float:
        return float((scores_BC.argmax(1).numpy() == true[rows]).sum())

    found = _cross_validated(train, test, torch.eye(len(labels))[true], ClassLoss(several=False), STRENGTHS, right)
    answers = [labels[number] for number in found.argmax(1).tolist()]
    return sum(answer == label for answer, (_, label) in zip(answers, test, strict=True)) / len(test)


def ridge_predictions(train: Sequence[tuple[Any, float]], test: Sequence[tuple[Any, float]]) -> list[float]:
    """Return what ridge regression predicts for test texts or pairs of texts."""
    numbers = torch.tensor([number for _, number in train], dtype=torch.float32)
    mean, deviation = float(numbers.mean()), float(numbers.std())
    true_B1 = ((numbers - mean) / deviation)[:, None]

    def closeness(scores_B1: Tensor, rows: NDArray[np.int64]) -> float:
        return -float((scores_B1 - true_B1[rows]).square().sum())

    found = _cross_validated(train, test, true_B1, SquaredLoss(), RIDGE_STRENGTHS, closeness)
    return (mean + deviation * found[:, 0]).tolist()


def _cross_validated(
    train: Sequence[tuple[Any, Any]],
    test: Sequence[tuple[Any, Any]],
    true_BC: Tensor,
    loss: Loss,
    strengths: Sequence[float],
    score: Score,
) -> Tensor:
    """Return the scores of test texts by the features and the penalty that are best in cross-validation."""
    fold = np.arange(len(train)) % FOLDS
    settings: dict[tuple[int, float], float] = {}
    for longest in (1, 2):
        known = [_counted(text, longest) for text, _ in train]
        for number in range(FOLDS):
            inside, outside = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            found = _scores(
                [known[row] for row in inside], [known[row] for row in outside], true_BC[inside], loss, strengths
            )
            for strength, scores_BC in zip(strengths, found, strict=True):
                key = longest, strength
                settings[key] = settings.get(key, 0.0) + score(scores_BC, outside)
    longest, strength = max(settings, key=lambda key: settings[key])
    known, asked = ([_counted(text, longest) for text, _ in rows] for rows in (train, test))
    return next(_scores(known, asked, true_BC, loss, [strength]))


def _scores(
    train: Sequence[Counts], asked: Sequence[Counts], true_BC: Tensor, loss: Loss, strengths: Sequence[float]
) -> Iterator[Tensor]:
    """Yield the scores of texts by a regression on the training texts, for each strength."""
    texts = Counter(feature for counts in train for feature in counts)
    columns = {feature: column for column, feature in enumerate(texts)}
    rarity = {feature: math.log((1 + len(train)) / (1 + count)) + 1 for feature, count in texts.items()}
    known_x, asked_x = (_features(counted, columns, rarity) for counted in (train, asked))
    for strength in strengths:
        weights_JC, bias_C = torch.zeros(len(columns), true_BC.shape[1]), torch.zeros(true_BC.shape[1])
        minimise_with(known_x, true_BC, weights_JC, bias_C, loss, strength, _ITERATIONS)
        yield asked_x.times(weights_JC) + bias_C


def _counted(text: Text, longest: int) -> Counts:
    """Count the n-grams of a text; of a pair, those of each text, and those that both have."""
    if isinstance(text, str):
        words = _WORD.findall(text.lower())
        return Counter(
            " ".join(words[start : start + length])
            for length in range(1, longest + 1)
            for start in range(len(words) - length + 1)
        )
    first, second = (_counted(side, longest) for side in text)
    sides = (("first", first), ("second", second), ("both", first & second))
    return Counter({f"{name}: {feature}": count for name, side in sides for feature, count in side.items()})


def _features(counted: Sequence[Counts], columns: dict[str, int], rarity: dict[str, float]) -> Features:
    rows: list[int] = []
    places: list[int] = []
    values: list[float] = []
    for row, counts in enumerate(counted):
        weights = {columns[feature]: count * rarity[feature] for feature, count in counts.items() if feature in columns}
        size = math.sqrt(sum(weight**2 for weight in weights.values()))
        rows += [row] * len(weights)
        places += weights
        values += [weight / size for weight in weights.values()]
    return Features(len(counted), torch.tensor(rows), torch.tensor(places), torch.tensor(values))
