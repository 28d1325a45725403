"""Axes: where values land, and ticks at round numbers."""

import math

import pytest

from heedful.pages.charts.axes import Axis, tick_label


def test_values_land_in_proportion_between_the_ends() -> None:
    axis = Axis(10, 30, 100, 500)
    assert [axis.at(value) for value in (10, 15, 30)] == [100, 200, 500]


def test_a_logarithmic_axis_gives_every_factor_the_same_length() -> None:
    axis = Axis(1, 10_000, 400, 0, log=True)
    assert [round(axis.at(value), 9) for value in (1, 10, 100, 10_000)] == [400, 300, 200, 0]


@pytest.mark.parametrize(
    ("low", "high", "log", "ticks"),
    [
        (0, 1, False, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (1, 59, False, [10, 20, 30, 40, 50]),
        (-0.3, 0.25, False, [-0.3, -0.2, -0.1, 0, 0.1, 0.2]),
        (100_000, 250_000, False, [100_000, 150_000, 200_000, 250_000]),
        (0.5, 20_000, True, [1, 10, 100, 1000, 10_000]),
        (3, 60, True, [5, 10, 20, 50]),
        (5, 500, True, [5, 10, 20, 50, 100, 200, 500]),
        (1e-12, 1e12, True, [10.0**power for power in range(-12, 13, 4)]),
    ],
)
def test_ticks_are_round_and_within_the_range(low: float, high: float, log: bool, ticks: list[float]) -> None:
    assert Axis(low, high, 0, 1, log).ticks() == pytest.approx(ticks, rel=1e-12)


def test_an_axis_covers_its_values_and_leaves_out_what_it_cannot_show() -> None:
    values = [3.0, math.nan, 7.5, math.inf, -math.inf]
    assert (Axis.over(values, 0, 1).low, Axis.over(values, 0, 1).high) == (3, 7.5)
    rounded = Axis.over(values, 0, 1, round_out=True)
    assert (rounded.low, rounded.high) == (3, 8)
    assert (Axis.over([0, -1, 20, 300], 0, 1, log=True, round_out=True).low) == 10


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("values", [[], [math.nan], [5.0], [5.0, 5.0]], ids=str)
def test_an_axis_of_one_value_or_of_none_has_a_length(values: list[float], log: bool) -> None:
    axis = Axis.over(values, 0, 100, log=log, round_out=True)
    assert axis.low < axis.high
    assert axis.ticks()


def test_numbers_are_short() -> None:
    values = (0, 0.05, -2, 1000, 12_500, 2.5e6, 3e9, 1e-7, 2e15)
    assert [*map(tick_label, values)] == ["0", "0.05", "-2", "1,000", "12,500", "2.5M", "3B", "1e-7", "2e15"]
