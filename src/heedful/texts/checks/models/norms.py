"""Layer norms as the slides write them: mean, deviation, epsilon, and the weights a and b."""

from typing import cast

import torch
from torch import Tensor

from heedful.nn.layers.linear import LayerNorm
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_WIDTH = 4


def mean_and_deviation() -> Computed:
    """mean = 1/|X| sum x, deviation^2 = 1/|X| sum (x - mean)^2: (x - mean) / deviation by a norm without epsilon"""
    with drawn():
        x, rows = numbers(3, _WIDTH), []
        for row in x.tolist():
            mean = sum(row) / len(row)
            variance = sum((value - mean) ** 2 for value in row) / len(row)
            rows.append([(value - mean) / variance**0.5 for value in row])
        return Computed(torch.tensor(rows), LayerNorm(_WIDTH, eps=1e-30).double()(x).detach(), tolerance=1e-6)


def place_of_epsilon() -> Computed:
    """a (x - mean) / (deviation + epsilon) + b in the text; Heedful, like PyTorch, has sqrt(deviation^2 + epsilon)"""
    with drawn():
        norm, x = cast(LayerNorm, randomize(LayerNorm(_WIDTH))), numbers(3, _WIDTH)
        mean, deviation = x.mean(1, keepdim=True), x.std(1, keepdim=True, correction=0)
        return Computed(norm.weight * (x - mean) / (deviation + norm.eps) + norm.bias, norm(x))


def learned_norm() -> Computed:
    """a and b are hyperparameters in the text, which training does not change (0); they are weights that it does (1)"""
    with drawn():
        norm = cast(LayerNorm, randomize(LayerNorm(_WIDTH)))
        norm(numbers(3, _WIDTH)).square().sum().backward()
        trained = [float(weight.grad is not None and bool(weight.grad.any())) for weight in (norm.weight, norm.bias)]
        return Computed([0, 0], trained, [1, 1])


def standard_normal() -> Computed:
    """X ~ N(0, 1) in the text: mean 0, variance 1, skewness 0; a norm keeps the shape of a skewed distribution

    Of 10,000 squares of normal numbers, whose skewness is that of chi-squared, about 2.8.
    """

    def moments(x: Tensor) -> list[float]:
        centred = x - x.mean()
        variance = centred.square().mean()
        return [float(x.mean()), float(variance), float(centred.pow(3).mean() / variance**1.5)]

    with drawn():
        x = numbers(1, 10_000).square()
        normed = LayerNorm(10_000).double()(x)[0].detach()
        return Computed([0, 1, 0], moments(normed), [0, 1, moments(x[0])[2]], tolerance=1e-4)
