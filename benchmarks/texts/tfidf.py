"""Logistic regression on tf-idf of words, with its penalty chosen by cross-validation.

As scikit-learn's TfidfVectorizer and LogisticRegression, whose settings it has, by torch alone.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from heedful.tasks.classify.classification import ClassLoss
from heedful.tasks.shared.pooled.sparse_regression import Features, minimise_with

_WORD: Final = re.compile(r"(?u)\b\w\w+\b")
STRENGTHS: Final = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # scikit-learn's C
FOLDS: Final = 3
_ITERATIONS: Final = 40

Rows = Sequence[tuple[str, str]]  # texts and labels


def cross_validated_accuracy(train: Rows, test: Rows) -> float:
    """Return the test accuracy of the features and the penalty that are best in cross-validation."""
    labels = sorted({label for _, label in train})
    best, settings = -1, (1, 1.0)
    folds = np.arange(len(train)) % FOLDS
    for longest in (1, 2):
        counts = [_right(*_split(train, folds == fold), labels, longest, STRENGTHS) for fold in range(FOLDS)]
        for strength, right in zip(STRENGTHS, map(sum, zip(*counts, strict=True)), strict=True):
            if right > best:
                best, settings = right, (longest, strength)
    longest, strength = settings
    return _right(train, test, labels, longest, [strength])[0] / len(test)


def _split(rows: Rows, held: np.ndarray) -> tuple[Rows, Rows]:
    known = [row for row, out in zip(rows, held, strict=True) if not out]
    return known, [row for row, out in zip(rows, held, strict=True) if out]


def _right(train: Rows, asked: Rows, labels: Sequence[str], longest: int, strengths: Sequence[float]) -> list[int]:
    """Return how many texts a regression on the training rows classifies rightly, for each strength."""
    known = [_counted(text, longest) for text, _ in train]
    texts = Counter(feature for counts in known for feature in counts)
    columns = {feature: column for column, feature in enumerate(texts)}
    rarity = {feature: math.log((1 + len(train)) / (1 + count)) + 1 for feature, count in texts.items()}
    true_BC = torch.eye(len(labels))[[labels.index(label) for _, label in train]]
    known_x = _features(known, columns, rarity)
    asked_x = _features([_counted(text, longest) for text, _ in asked], columns, rarity)
    right = []
    for strength in strengths:
        weights_JC, bias_C = torch.zeros(len(columns), len(labels)), torch.zeros(len(labels))
        minimise_with(known_x, true_BC, weights_JC, bias_C, ClassLoss(several=False), strength, _ITERATIONS)
        found = (asked_x.times(weights_JC) + bias_C).argmax(1).tolist()
        right.append(sum(labels[number] == label for number, (_, label) in zip(found, asked, strict=True)))
    return right


def _counted(text: str, longest: int) -> Counter[str]:
    words = _WORD.findall(text.lower())
    return Counter(
        " ".join(words[start : start + length])
        for length in range(1, longest + 1)
        for start in range(len(words) - length + 1)
    )


def _features(counted: Sequence[Counter[str]], columns: dict[str, int], rarity: dict[str, float]) -> Features:
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
