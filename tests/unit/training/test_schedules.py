"""Schedules against their equations, written out again."""

import math
from itertools import pairwise

import pytest
import torch

from heedful.config.train.optimizers import Adam, RAdam
from heedful.config.train.schedules import (
    AnySchedule,
    Constant,
    Cosine,
    ExponentialWarmup,
    InverseSqrt,
    Linear,
    LinearWarmup,
    Noam,
    UntunedExponentialWarmup,
    UntunedLinearWarmup,
    Wait,
)
from heedful.training.schedules import build_drawn_rate, build_learning_rate, build_warmup, rectification

WIDTH, STEPS = 512, 1000


@pytest.mark.parametrize("step", [1, 7, 4000, 4001, 100_000])
def test_noam_is_the_equation_of_the_paper(step: int) -> None:
    rate = build_learning_rate(Noam(factor=2.0, warmup=4000), WIDTH, STEPS)
    assert rate(step) == pytest.approx(2.0 * WIDTH**-0.5 * min(step**-0.5, step * 4000**-1.5), rel=1e-12)


def test_inverse_sqrt_peaks_at_the_end_of_the_warm_up_and_equals_noam_in_shape() -> None:
    rate = build_learning_rate(InverseSqrt(kind="inverse_sqrt", lr=0.01, warmup=100), WIDTH, STEPS)
    noam = build_learning_rate(Noam(warmup=100), WIDTH, STEPS)
    assert rate(100) == pytest.approx(0.01)
    for step in (1, 50, 100, 400, 1000):
        assert rate(step) / rate(100) == pytest.approx(noam(step) / noam(100))


def test_linear_rises_then_falls_straight_to_its_floor() -> None:
    rate = build_learning_rate(Linear(kind="linear", lr=1.0, warmup=100, floor=0.1), WIDTH, STEPS)
    assert rate(50) == pytest.approx(0.5)
    assert rate(100) == pytest.approx(1.0)
    assert rate(550) == pytest.approx(0.55)
    assert rate(1000) == pytest.approx(0.1)


def test_cosine_is_half_a_wave() -> None:
    rate = build_learning_rate(Cosine(kind="cosine", lr=1.0, warmup=0), WIDTH, STEPS)
    for step in (1, 250, 500, 1000):
        assert rate(step) == pytest.approx((1 + math.cos(math.pi * step / 1000)) / 2, abs=1e-12)


def test_constant_stays_after_its_warm_up() -> None:
    rate = build_learning_rate(Constant(kind="constant", lr=0.3, warmup=10), WIDTH, STEPS)
    assert rate(5) == pytest.approx(0.15)
    assert rate(10) == rate(999) == pytest.approx(0.3)


@pytest.mark.parametrize(
    "schedule",
    [
        Noam(warmup=50),
        InverseSqrt(kind="inverse_sqrt", lr=1.0, warmup=50),
        Linear(kind="linear", lr=1.0, warmup=50),
        Cosine(kind="cosine", lr=1.0, warmup=50),
        Constant(kind="constant", lr=1.0, warmup=50),
    ],
)
def test_every_schedule_rises_in_its_warm_up_and_never_after_it(schedule: AnySchedule) -> None:
    rates = [build_learning_rate(schedule, WIDTH, STEPS)(step) for step in range(1, STEPS + 1)]
    assert all(a < b for a, b in pairwise(rates[:50]))
    assert all(a >= b for a, b in pairwise(rates[49:]))


def test_a_cosine_over_the_run_is_multiplied_by_its_warm_up() -> None:
    rate = build_learning_rate(Cosine(kind="cosine", lr=2.0, warmup=100, span="run"), WIDTH, STEPS)
    for step in (1, 50, 100, 600, 1000):
        wave = (1 + math.cos(math.pi * step / STEPS)) / 2
        assert rate(step) == pytest.approx(2.0 * min(1, step / 100) * wave, abs=1e-12)


@pytest.mark.parametrize("step", [1, 10, 99, 100, 101, 5000])
def test_warm_ups_are_the_equations_of_the_paper(step: int) -> None:
    adam = Adam(beta2=0.99)
    assert build_warmup(None, adam)(step) == 1
    assert build_warmup(LinearWarmup(kind="linear", steps=100), adam)(step) == min(1, step / 100)
    exponential = build_warmup(ExponentialWarmup(kind="exponential", steps=100), adam)
    assert exponential(step) == pytest.approx(1 - math.e ** (-step / 100))
    untuned = build_warmup(UntunedLinearWarmup(kind="untuned_linear"), adam)
    assert untuned(step) == pytest.approx(min(1, step / 200))  # 2 / (1 - beta2) updates
    untuned = build_warmup(UntunedExponentialWarmup(kind="untuned_exponential"), adam)
    assert untuned(step) == pytest.approx(exponential(step))  # whose time constant is 1 / (1 - beta2)
    assert build_warmup(Wait(kind="wait", steps=100), adam)(step) == (0 if step <= 100 else 1)


@pytest.mark.parametrize("beta2", [0.9, 0.98, 0.999])
def test_the_rectification_is_the_size_of_radams_steps(beta2: float) -> None:
    """With one gradient at every update both means are exact, and a step is the rate times the rectification.

    Before the variance is known, it is the rate times the gradient: no adaptive step at all.
    """
    weight, gradient, rate = torch.nn.Parameter(torch.zeros((), dtype=torch.float64)), 0.25, 0.001
    optimizer = torch.optim.RAdam([weight], lr=rate, betas=(0.9, beta2), eps=1e-30)
    factor, before = rectification(beta2), 0.0
    waiting = 0
    for step in range(1, 3001):
        weight.grad = torch.full_like(weight, gradient)
        optimizer.step()
        taken, before = before - weight.item(), weight.item()
        waiting += factor(step) == 0
        assert taken == pytest.approx(rate * (factor(step) or gradient), rel=1e-6)
    assert waiting == 5
    assert factor(100_000) == pytest.approx(1)


def test_the_rate_of_radam_is_drawn_rectified_and_that_of_adam_as_it_is() -> None:
    rates = [
        build_drawn_rate(Linear(kind="linear", lr=2.0), None, optimizer, WIDTH, STEPS)
        for optimizer in (RAdam(kind="radam", beta2=0.999), Adam(beta2=0.999))
    ]
    plain, factor = build_learning_rate(Linear(kind="linear", lr=2.0), WIDTH, STEPS), rectification(0.999)
    for step in (1, 5, 6, 500, 1000):
        assert [rate(step) for rate in rates] == [plain(step) * factor(step), plain(step)]
