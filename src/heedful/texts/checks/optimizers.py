"""Optimizers as the texts write them: Adagrad, RMSProp and Adam, their parts, and how their rates change."""

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

from heedful.config.train.optimizers import Adagrad, Adam, AnyOptimizer, RmsProp
from heedful.texts.checks.computed import Computed
from heedful.training.optimizers.build import build_optimizer

_GRADIENTS = (0.5, -1.0, 2.0, 0.1)
_ADAGRAD = Adagrad(kind="adagrad", initial=0.0, epsilon=1e-12)
_RMSPROP = RmsProp(kind="rmsprop", decay=0.25, epsilon=1e-12)
_ADAM = Adam(kind="adam", beta1=0.9, beta2=0.98, epsilon=1e-9)


class _Weight(nn.Module):
    """One weight, which starts at 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones((), dtype=torch.float64))


def _stepped(config: AnyOptimizer, gradients: Sequence[float] = _GRADIENTS, rate: float = 0.1) -> list[float]:
    """Return the weight after each gradient, by the optimizer that recipes build."""
    model, found = _Weight(), []
    optimizer = build_optimizer(config, model)
    for gradient in gradients:
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.weight.grad = torch.full_like(model.weight, gradient)
        optimizer.step()
        found.append(float(model.weight.detach()))
    return found


def _adam(
    momentum: float = 0.9, squares: float = 0.98, share: Callable[[float, int], float] = lambda p, t: 1 - p**t
) -> list[float]:
    """Return the weight by v, s, their values over `share`, and w - rate vc / (sqrt(sc) + e)."""
    w, v, s, found = 1.0, 0.0, 0.0, []
    for t, gradient in enumerate(_GRADIENTS, start=1):
        v = momentum * v + (1 - momentum) * gradient
        s = squares * s + (1 - squares) * gradient**2
        w -= 0.1 * (v / share(momentum, t)) / (math.sqrt(s / share(squares, t)) + 1e-9)
        found.append(w)
    return found


def adam_with_one_rate() -> Computed:
    """One p, 0.9, for both v and s in the text; 0.9 for v and 0.98 for s"""
    return Computed(_adam(0.9, 0.9), _stepped(_ADAM), _adam())


def adam_without_the_exponent() -> Computed:
    """Moments over 1 - beta in the text; over 1 - beta^t"""
    return Computed(_adam(share=lambda beta, _: 1 - beta), _stepped(_ADAM), _adam())


def adam_from_its_parts() -> Computed:
    """RMSProp's s and the velocity v of momentum: Adam without the velocity is RMSProp, apart from the correction"""
    p, w, g, text = 0.9, 1.0, 0.0, []
    for t, gradient in enumerate(_GRADIENTS, start=1):
        g = p * g + (1 - p) * gradient**2
        w -= 0.1 * gradient / math.sqrt(g / (1 - p**t))
        text.append(w)
    return Computed(text, _stepped(Adam(kind="adam", beta1=0.0, beta2=p, epsilon=1e-12)))


def adagrad() -> Computed:
    """g = g + gradient^2; w = w - rate gradient / sqrt(g)"""
    w, g, text = 1.0, 0.0, []
    for gradient in _GRADIENTS:
        g += gradient**2
        w -= 0.1 * gradient / math.sqrt(g)
        text.append(w)
    return Computed(text, _stepped(_ADAGRAD))


def rmsprop() -> Computed:
    """g = p g + (1 - p) gradient^2, with p = 0.25; w = w - rate gradient / sqrt(g)"""
    w, g, text = 1.0, 0.0, []
    for gradient in _GRADIENTS:
        g = 0.25 * g + 0.75 * gradient**2
        w -= 0.1 * gradient / math.sqrt(g)
        text.append(w)
    return Computed(text, _stepped(_RMSPROP))


def adagrad_stops() -> Computed:
    """Steps of equal gradients: g grows, so that step t is 1 / sqrt(t) of the first, and training comes to a stop"""
    weights = [1.0, *_stepped(_ADAGRAD, [2.0] * 100)]
    steps = [before - after for before, after in itertools.pairwise(weights)]
    shown = (1, 4, 25, 100)
    return Computed([0.1 / math.sqrt(t) for t in shown], [steps[t - 1] for t in shown])


def rmsprop_goes_on() -> Computed:
    """Steps of equal gradients: g = p g + (1 - p) gradient^2 tends to gradient^2, and the step to the rate"""
    weights = [1.0, *_stepped(_RMSPROP, [2.0] * 100)]
    steps = [before - after for before, after in itertools.pairwise(weights)]
    shown = (1, 4, 25, 100)
    return Computed([0.1 / math.sqrt(1 - 0.25**t) for t in shown], [steps[t - 1] for t in shown])


def rmsprop_shares() -> Computed:
    """p = 0.25: of the new g, 25% are the old g and 75% the new squared gradient"""
    old, new = 0.5**2 * 0.75, 2.0**2
    first, second = _stepped(_RMSPROP, [0.5, 2.0])
    ours = (0.1 * 2.0 / (first - second)) ** 2  # the g that the step was divided by
    return Computed([0.25 * old + 0.75 * new], [ours])


def adagrad_rates_of_weights() -> Computed:
    """The rate of each weight, lr / sqrt(g), follows from its own gradients: step over gradient of 0.1, 1 and 10"""
    gradients = (0.1, 1.0, 10.0)
    ours = [(1.0 - _stepped(_ADAGRAD, [gradient])[0]) / gradient for gradient in gradients]
    return Computed([0.1 / math.sqrt(gradient**2) for gradient in gradients], ours)
