"""Scores of numbers against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.base.columns import in_digits
from heedful.tasks.regress.numbers import NumberResult, correlation_of_sums, ranks

ROWS = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=30)


def naive_rank(values: list[float], index: int) -> float:
    """The mean place of a value among all, by counting."""
    below = sum(other < values[index] for other in values)
    same = sum(other == values[index] for other in values)
    return below + (same + 1) / 2


@given(ROWS)
def test_ranks_are_mean_places(rows: list[tuple[int, int]]) -> None:
    values = [float(first) for first, _ in rows]
    assert ranks(np.array(values)).tolist() == [naive_rank(values, index) for index in range(len(values))]


@given(ROWS)
def test_correlations_are_numpys(rows: list[tuple[int, int]]) -> None:
    said, true = (np.array(column, float) for column in zip(*rows, strict=True))
    result = NumberResult.of(said.tolist(), true.tolist(), 1.0, squared=True)
    varies = said.std() > 0 and true.std() > 0
    assert result.pearson == pytest.approx(np.corrcoef(said, true)[0, 1] if varies else 0, abs=1e-9)
    by_rank = np.corrcoef(ranks(said), ranks(true))[0, 1] if varies else 0
    assert result.spearman == pytest.approx(by_rank, abs=1e-9)


def test_errors_and_the_loss_are_their_definitions() -> None:
    result = NumberResult.of([1.0, 4.0, 2.0], [2.0, 2.0, 2.5], deviation=2.0, squared=True)
    assert result.mean_absolute_error == pytest.approx((1 + 2 + 0.5) / 3)
    assert result.root_mean_squared_error == pytest.approx(((1 + 4 + 0.25) / 3) ** 0.5)
    assert result.loss == pytest.approx((1 + 4 + 0.25) / 4 / 3)
    assert NumberResult.of([1.0, 4.0], [2.0, 2.0], 2.0, squared=False).loss == pytest.approx((0.5 + 1) / 2)
    assert NumberResult.of([2.0, 2.0], [2.0, 2.0], 2.0, squared=False).explained == 0
    perfect = NumberResult.of([1.0, 3.0], [1.0, 3.0], 1.0, squared=True)
    assert [perfect.explained, perfect.pearson, perfect.spearman] == pytest.approx([1.0, 1.0, 1.0])


def test_items_add_up_to_the_scores() -> None:
    said, true = np.random.default_rng(1).normal(size=(2, 50))
    result = NumberResult.of(said.tolist(), true.tolist(), 1.0, squared=True)
    for of_ranks, score in ((False, result.pearson), (True, result.spearman)):
        items = result.correlation_items(of_ranks)
        assert float(items.of_sums(items.counts().sum(0))) == pytest.approx(100 * score)
    items = result.error_items()
    assert float(items.of_sums(items.counts().sum(0))) == pytest.approx(result.mean_absolute_error)
    assert correlation_of_sums(np.zeros((3, 6))).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("number", "written"),
    [(1_234_567.8, "1234570"), (905.4574584, "905.457"), (0.5, "0.5"), (-3.0, "-3"), (1.25e-7, "1.25e-07")],
)
def test_numbers_are_written_without_an_exponent_where_they_are_large(number: float, written: str) -> None:
    assert in_digits(number, 6) == written
