"""Scores of classes, against counts one by one and against their definitions."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

from heedful.metrics.classification import ClassificationResult, mark_classes, wilson_interval
from heedful.tasks.classify.classification import class_loss, class_probabilities, decide_classes

LABELS = ("a", "b", "c", "never")


def drawn(several: bool) -> tuple[list[set[int]], list[set[int]]]:
    """True and said classes of texts: the last class is neither."""
    chance = random.Random(several)
    sizes = [0, 1, 2] if several else [1]
    return tuple([set(chance.sample(range(3), chance.choice(sizes))) for _ in range(200)] for _ in range(2))  # type: ignore[return-value]


@pytest.mark.parametrize("several", [False, True])
def test_scores_are_those_of_naive_counts(several: bool) -> None:
    true, said = drawn(several)
    judged = ClassificationResult(
        LABELS, mark_classes([sorted(one) for one in true], 4), mark_classes([sorted(one) for one in said], 4)
    )
    right = sum(a == b for a, b in zip(true, said, strict=True))
    assert judged.right_texts == right
    assert judged.accuracy == right / 200
    f1 = []
    for number in range(4):
        both = sum(number in a and number in b for a, b in zip(true, said, strict=True))
        of_true, of_said = (sum(number in one for one in many) for many in (true, said))
        precision, recall = both / of_said if of_said else 0.0, both / of_true if of_true else 0.0
        f1.append(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
        assert judged.precision[number] == pytest.approx(precision)
        assert judged.recall[number] == pytest.approx(recall)
    assert judged.f1.tolist() == pytest.approx(f1)
    assert judged.macro_f1 == pytest.approx(sum(f1) / 4)
    hits = sum(len(a & b) for a, b in zip(true, said, strict=True))
    assert judged.micro_f1 == pytest.approx(2 * hits / (sum(map(len, true)) + sum(map(len, said))))


def test_of_one_label_micro_f1_is_the_accuracy_and_the_matrix_counts_pairs() -> None:
    true, said = drawn(several=False)
    judged = ClassificationResult(
        LABELS, mark_classes([list(one) for one in true], 4), mark_classes([list(one) for one in said], 4)
    )
    assert judged.micro_f1 == pytest.approx(judged.accuracy)
    expected = np.zeros((4, 4), np.int64)
    for (one,), (other,) in zip(true, said, strict=True):
        expected[one, other] += 1
    assert judged.confusion.tolist() == expected.tolist()


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function changes its sign, by halving."""
    rises = function(high) > 0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if (function(middle) > 0) == rises else (middle, high)
    return low


@pytest.mark.parametrize(("right", "count"), [(59, 60), (1, 3), (900, 1000), (2, 4)])
def test_the_interval_ends_where_the_share_is_two_deviations_away(right: int, count: int) -> None:
    """Wilson's definition, solved numerically."""

    def beyond(share: float) -> float:
        return abs(right / count - share) - 1.959963984540054 * math.sqrt(share * (1 - share) / count)

    low, high = wilson_interval(right, count)
    assert low == pytest.approx(root(beyond, 0.0, right / count), abs=1e-9)
    assert high == pytest.approx(root(beyond, right / count, 1.0), abs=1e-9)


def test_the_interval_stays_a_share_where_all_or_none_is_right() -> None:
    low, high = wilson_interval(0, 7)
    assert low == 0.0
    assert 0 < high < 0.5
    assert wilson_interval(7, 7) == pytest.approx((1 - high, 1.0))
    assert wilson_interval(7, 7)[1] <= 1


def test_what_is_said_is_the_likeliest_class_or_all_that_are_more_likely_than_not() -> None:
    scores_BC = torch.tensor([[1.0, 2.0, -1.0], [-1.0, -2.0, -3.0], [0.5, 0.1, 4.0]])
    assert decide_classes(scores_BC, several=False).tolist() == [
        [False, True, False], [True, False, False], [False, False, True],
    ]  # fmt: skip
    assert decide_classes(scores_BC, several=True).tolist() == [[True, True, False], [False] * 3, [True] * 3]
    for several in (False, True):
        shares = class_probabilities(scores_BC, several)
        assert (shares.argmax(dim=1) == scores_BC.argmax(dim=1)).all()
    assert class_probabilities(scores_BC, several=False).sum(dim=1).tolist() == pytest.approx([1, 1, 1])
    expected = [1 / (1 + math.exp(-score)) for score in scores_BC[0].tolist()]
    assert class_probabilities(scores_BC, several=True)[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("several", [False, True])
def test_the_loss_is_minus_the_mean_log_probability_of_the_truth(several: bool) -> None:
    scores_BC = torch.randn(6, 3, dtype=torch.float64)
    true = mark_classes([[0, 2], [], [1], [0], [2], [0, 1, 2]] if several else [[0], [1], [2], [0], [1], [2]], 3)
    shares = class_probabilities(scores_BC, several).numpy()
    logs = np.where(true, np.log(shares), np.log(1 - shares) if several else 0.0)
    assert class_loss(scores_BC, true, several) == pytest.approx(-logs.sum() / 6)
