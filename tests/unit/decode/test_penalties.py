"""Length and coverage penalties against their equations."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.refusals import refuses

from heedful.base.packed import Layout
from heedful.decode.frontiers.rows import Attended
from heedful.decode.hypothesis import Coverage, Shifted, Wu


@pytest.mark.parametrize("alpha", [-0.1, float("nan"), float("inf")])
def test_a_length_penalty_is_a_number_from_0(alpha: float) -> None:
    for penalty in (Wu, Shifted):
        with refuses(f"`length_penalty` is {alpha}, but must be 0 or more."):
            penalty(alpha)
    with refuses(f"`length_shift` is {alpha}, but must be 0 or more."):
        Shifted(1.0, alpha)
    with refuses(f"`coverage` is {alpha}, but must be 0 or more."):
        Coverage(alpha)


def test_the_penalty_is_that_of_wu() -> None:
    assert Wu(0.0)(17) == 1
    assert Wu(1.0)(7) == 2
    assert Wu(0.6)(1) == 1
    assert Wu(0.6)(25) == pytest.approx(5**0.6)


def test_the_shifted_penalty_counts_from_beta() -> None:
    assert Shifted(0.0, 3.0)(17) == 1
    assert Shifted(1.0)(7) == 8
    assert Shifted(1.0, 3.0)(7) == 2
    assert Shifted(0.5, 3.0)(0) == 0.5
    assert Shifted(2.0, 5.0)(5) == 1


@given(alpha=st.floats(0, 3), beta=st.floats(0, 20), length=st.integers(1, 300))
def test_longer_is_never_divided_by_less(alpha: float, beta: float, length: int) -> None:
    for penalty in (Wu(alpha), Shifted(alpha, beta)):
        assert 0 < penalty(length) <= penalty(length + 1)


@pytest.mark.parametrize("alpha", [1e3, 1e9])
def test_no_exponent_makes_a_divisor_zero_or_infinite(alpha: float) -> None:
    for divisor in (Wu(alpha)(500), Shifted(alpha)(500), Shifted(alpha, 40.0)(1), Wu(alpha)(1), Shifted(alpha, 1.0)(1)):
        assert 0 < divisor < math.inf


def test_coverage_equals_its_equation() -> None:
    layout, beta = Layout.of([3, 1, 4]), 0.7
    steps = [torch.rand(6, 4, dtype=torch.float64) * layout.keep.repeat_interleave(2, 0) for _ in range(3)]
    attended = Attended.begin(layout, 2)
    for weights_RL in steps:
        attended = attended.add(weights_RL, torch.tensor([[True], [True], [True]]))
    found_BK = Coverage(beta)(attended.sums_BKL)
    for row in range(6):
        size = [3, 1, 4][row // 2]
        sums = [sum(float(weights_RL[row, place]) for weights_RL in steps) for place in range(size)]
        expected = beta * sum(math.log(min(share, 1.0)) for share in sums)
        assert float(found_BK.flatten()[row]) == pytest.approx(expected, abs=1e-12)
    assert torch.equal(attended.indices_BKT.flatten(0, 1), torch.stack([weights.argmax(1) for weights in steps], dim=1))


def test_a_source_token_without_any_weight_leaves_the_score_finite() -> None:
    covered = Coverage(1.0)(torch.tensor([[[0.0, 1.0, 5.0]]]))
    assert math.isfinite(float(covered))
    assert float(covered) < -80
    assert float(Coverage(0.0)(torch.tensor([[[0.0, 1.0]]]))) == 0


def test_rows_that_do_not_go_on_attend_to_nothing() -> None:
    attended = Attended.begin(Layout.of([2]), 2).add(torch.full((2, 2), 0.5), torch.tensor([[True, False]]))
    assert attended.sums_BKL.tolist() == [[[0.5, 0.5], [0.0, 0.0]]]


def test_a_decoder_that_keeps_its_attention_to_itself_is_noticed() -> None:
    with refuses("...started `aligned` gives its attention...", AssertionError):
        Attended.begin(Layout.of([2]), 1).add(None, torch.tensor([[True]]))
