"""Decays of the true token's probability against the paper's equations, written out again."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from tests.shared.refusals import Refusal, each

from heedful.training.schedules import DECAYS, ExponentialDecay, InverseSigmoidDecay, LinearDecay

ALL: tuple[Callable[[int], float], ...] = (
    LinearDecay(slope=0.001),
    LinearDecay(slope=0.01, offset=1.5, floor=0.25),
    ExponentialDecay(0.99),
    InverseSigmoidDecay(20),
)
every_decay = pytest.mark.parametrize("decay", ALL, ids=lambda decay: type(decay).__name__)


@pytest.mark.parametrize("step", [0, 1, 49, 50, 51, 124, 125, 126, 10_000])
def test_linear_decay_falls_straight_from_its_offset_to_its_floor(step: int) -> None:
    k, c, floor = 1.5, 0.01, 0.25
    expected = 1.0 if step <= 50 else k - c * step if step < 125 else floor
    assert LinearDecay(slope=c, offset=k, floor=floor)(step) == pytest.approx(expected, rel=1e-12)


def test_exponential_decay_is_multiplied_once_an_update() -> None:
    decay, expected = ExponentialDecay(0.97), 1.0
    for step in range(100):
        assert decay(step) == pytest.approx(expected, rel=1e-12)
        expected *= 0.97


@pytest.mark.parametrize("k", [1, 12, 300.5])
def test_inverse_sigmoid_decay_is_the_equation_of_the_paper(k: float) -> None:
    decay = InverseSigmoidDecay(k)
    for step in (0, 1, 7, 100, 600):
        assert decay(step) == pytest.approx(k / (k + math.exp(step / k)), rel=1e-12)
    assert decay(10**9) == 0.0  # where exp(i / k) is too large for a number


@every_decay
def test_every_decay_is_a_probability_that_begins_near_one_and_never_rises(decay: Callable[[int], float]) -> None:
    chances = [decay(step) for step in range(3000)]
    assert 0.95 < chances[0] <= 1
    assert all(0 <= later <= earlier for earlier, later in pairwise(chances))
    assert chances[-1] < 0.3


def test_every_decay_has_a_name() -> None:
    assert {type(decay) for decay in ALL} == set(DECAYS.values())
    assert DECAYS["inverse_sigmoid"] is InverseSigmoidDecay


REFUSALS = [
    Refusal(
        "a line that does not fall",
        lambda: LinearDecay(slope=0),
        "linear decay has a slope of 0; it must be above 0",
        error=ValueError,
    ),
    Refusal(
        "a line with nowhere to fall",
        lambda: LinearDecay(slope=0.1, floor=1),
        "linear decay has a floor of 1; it must be at least 0 and below 1",
        error=ValueError,
    ),
    Refusal(
        "a power of 1",
        lambda: ExponentialDecay(1),
        "exponential decay has a base of 1; it must be between 0 and 1",
        error=ValueError,
    ),
    Refusal(
        "a sigmoid steeper than a step",
        lambda: InverseSigmoidDecay(0.5),
        "inverse sigmoid decay has a span of 0.5; it must be at least 1",
        error=ValueError,
    ),
]


@each(REFUSALS)
def test_numbers_that_are_no_decay_are_refused(refusal: Refusal) -> None:
    refusal.check()
