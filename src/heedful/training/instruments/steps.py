"""Measurements around a step of the optimizer: norms of weights, gradients and updates, and histograms of updates.

Every number of a measurement is computed on the device; they are read together, in one transfer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.training.instruments.parts import WeightPart

LOWEST, HIGHEST, PER_DECADE = -12, 1, 4  # log10 |update|: bins from 1e-12 to 10, four per factor of ten
BINS: Final = (HIGHEST - LOWEST) * PER_DECADE


@dataclass(frozen=True, eq=False)
class WeightsBefore:
    """Copies of the weights before a step, and the norms of the gradients that it is given."""

    weights: list[Tensor]
    gradient_P: Float[Tensor, "P"]


@dataclass(frozen=True, eq=False)
class StepNorms:
    """What a step did to each part: norms of its weights after it, of its gradient, and of its update."""

    weight_P: Float[Tensor, "P"]
    gradient_P: Float[Tensor, "P"]
    update_P: Float[Tensor, "P"]
    counts_PB: Int[Tensor, "P B"] | None  # weights that changed, by log10 |update|; None without histograms


@torch.no_grad()
def before_step(parts: Sequence[WeightPart], units: int) -> WeightsBefore:
    """Copy the weights, and measure the summed gradients of `units`: the norm is that of their mean, unclipped."""
    views = [weight for part in parts for weight in part.weights()]
    gradients = [
        weight.new_zeros(()) if gradient is None else gradient
        for part in parts
        for weight, gradient in zip(part.weights(), part.gradients(), strict=True)
    ]
    return WeightsBefore([view.clone() for view in views], _norms(parts, gradients) / units)


@torch.no_grad()
def after_step(parts: Sequence[WeightPart], before: WeightsBefore, histograms: bool = True) -> StepNorms:
    """Measure what changed since `before`, whose copies become the updates."""
    weights = [weight for part in parts for weight in part.weights()]
    updates = before.weights
    torch._foreach_mul_(updates, -1)
    torch._foreach_add_(updates, weights)
    norms = (_norms(parts, weights), before.gradient_P, _norms(parts, updates))
    if not histograms:
        return StepNorms(*norms, None)
    edges = 10 ** torch.linspace(LOWEST, HIGHEST, BINS + 1, dtype=torch.float64)
    inner = edges[1:-1].to(updates[0])  # what is smaller or larger counts in the first or last bin
    return StepNorms(*norms, torch.stack([_histogram(some, inner) for some in _grouped(parts, updates)]))


def _norms(parts: Sequence[WeightPart], tensors: Sequence[Tensor]) -> Float[Tensor, "P"]:
    """Return the norm of each part, all of whose tensors count."""
    squares = torch.stack(torch._foreach_norm(list(tensors))).double().square()
    owners = [number for number, part in enumerate(parts) for _ in part.slices]
    counts = [owners.count(number) for number in range(len(parts))]
    return torch.stack([some.sum() for some in squares.split(counts)]).sqrt()


def _grouped(parts: Sequence[WeightPart], tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield the values of each part in one row."""
    left = iter(tensors)
    for part in parts:
        values = [next(left).flatten() for _ in part.slices]
        yield values[0] if len(values) == 1 else torch.cat(values)


def _histogram(values: Tensor, inner: Tensor) -> Int[Tensor, "B"]:
    """Count values other than zero by their size.

    A sort gives the same counts on every device, in deterministic runs too, without waiting for the device.
    """
    ordered = values.abs().sort().values
    zeros = torch.searchsorted(ordered, ordered.new_zeros(1), right=True)
    below = torch.searchsorted(ordered, inner)
    return torch.cat([zeros, below, zeros.new_full((1,), len(ordered))]).diff()
