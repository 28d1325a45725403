"""Divergence: what is named, and when a rise is told."""

import math

import pytest
import torch
from tests.shared.refusals import like
from torch import Tensor, nn

from heedful.training.instruments.divergence import WINDOW, DivergenceWatch, Rise, locate_non_finite
from heedful.training.objectives import Sums


class Numbers:
    """A batch of numbers."""

    def __init__(self, *values: float) -> None:
        self.values = torch.tensor([values])

    def to(self, device: torch.device, non_blocking: bool = False) -> "Numbers":
        return self


class Squares:
    """The sum of what a network makes of numbers, after a function."""

    def __init__(self, function: object = torch.sum) -> None:
        self.function = function

    def __call__(self, model: nn.Module, batch: Numbers) -> Sums:
        loss: Tensor = self.function(model(batch.values))  # type: ignore[operator]
        return Sums(loss, loss)

    def units(self, batch: Numbers) -> int:
        return 1

    def tokens(self, batch: Numbers) -> int:
        return 1


class Tiny(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)])
        for layer in self.layers:
            nn.init.eye_(layer.weight)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def located(model: nn.Module, batch: Numbers, objective: Squares | None = None) -> str:
    return locate_non_finite(model, objective or Squares(), batch, torch.device("cpu"))


def test_the_first_layer_that_is_not_finite_is_named() -> None:
    assert located(Tiny(), Numbers(1.0, 2.0)) == ""
    sick = Tiny()
    nn.init.constant_(sick.layers[1].weight, math.inf)  # type: ignore[arg-type]
    assert located(sick, Numbers(1.0, 2.0)) == "The weights of 1 (other) are not finite."
    large = Tiny()
    nn.init.constant_(large.layers[0].weight, 1e30)  # type: ignore[arg-type]
    assert located(large, Numbers(1e30, 1.0)) == "The first outputs that are not finite are those of 0 (0)."
    assert located(Tiny(), Numbers(1.0, 2.0), Squares(lambda y: y.sum() * math.nan)) == (
        "The outputs of all layers are finite, but the loss is not."
    )
    gradient = located(Tiny(), Numbers(0.0, 0.0), Squares(lambda y: y.abs().sqrt().sum()))
    assert gradient == "The loss is finite, but the gradients of 0 (other) and 1 more are not."


def test_a_rise_is_told_once_until_the_series_has_come_down() -> None:
    rise = Rise(1.25, 0.1)
    values = [4.0] * WINDOW + [6.0] * 2 * WINDOW + [4.0] + [6.0] * WINDOW
    told = [step for step, value in enumerate(values, start=1) if rise.add(step, value)]
    assert told == [2 * WINDOW, 3 * WINDOW + 1 + WINDOW]
    assert (rise.best, rise.best_step) == (4.0, WINDOW)


@pytest.mark.parametrize("values", [[5.0 - 0.1 * n for n in range(40)], [3.0 + n % 3 for n in range(60)], [2.0] * 30])
def test_noise_and_descent_are_no_rise(values: list[float]) -> None:
    rise = Rise(1.25, 0.1)
    assert not any(rise.add(step, value) for step, value in enumerate(values))


def test_the_warning_names_the_part_whose_gradient_grew_most() -> None:
    watch = DivergenceWatch()
    for step in range(1, 31):
        grown = 1.0 if step <= 10 else 50.0
        rows = [("encoder.0", "key", grown), ("encoder.1", "value", 1.0), ("decoder.0", "bias", None)]
        watch.measured(
            {"step": step, "weights": [dict(zip(("layer", "kind", "gradient"), row, strict=True)) for row in rows]}
        )
        line = watch.metrics(step, 4.0 if step <= 10 else 7.0, 1.0)
        assert (line is not None) == (step == 20)
        if line:
            assert line == like(
                "The loss has been well above its best since step 11: 7, after 4 at step 10. The gradient has "
                "grown most in encoder.0 (key): 50 times from step 10 to 20. If it stays there, resume from an "
                "earlier checkpoint or start again, and lower the learning rate, ..."
            )


def test_a_gradient_that_grows_is_told_before_the_loss_rises() -> None:
    watch = DivergenceWatch()
    lines = [watch.metrics(step, 4.0, 1.0 if step <= 10 else 100.0) for step in range(1, 25)]
    (line,) = [line for line in lines if line]
    assert line == like(
        "The norm of the gradient has grown to 100 since step 11, from 1 at step 10. "
        "`train.instruments = {}` would record in which layer it began. If the loss rises, lower the "
        "learning rate, ..."
    )
    assert watch.metrics(25, None, None) is None
