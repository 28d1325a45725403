"""Measurements around a step of the optimizer: norms of weights, gradients and updates, and histograms of updates.

Every number of a measurement is computed on the device; they are read together, in one transfer. What does not change
from step to step is there already: a copy from the host would wait for all work that the device still has to do.

Shape letters of this file: P  parts
                            M  most tensors of a part
                            R  rows
                            E  edges
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.training.instruments.parts import WeightPart

LOWEST, HIGHEST, PER_DECADE = -12, 1, 4  # log10 |update|: bins from 1e-12 to 10, four per factor of ten
BINS: Final = (HIGHEST - LOWEST) * PER_DECADE
ROW: Final = 4096  # values; those of a part fill rows of their own
TOGETHER: Final = 2**25  # values of parts that are counted together, if there are several: it bounds the memory


@dataclass(frozen=True, eq=False)
class WeightsBefore:
    """The weights, their negative copies before a step, and the norms of the gradients that it is given."""

    weights: list[Tensor]
    negative: list[Tensor]
    gradient_P: Float[Tensor, "P"]


@dataclass(frozen=True, eq=False)
class StepNorms:
    """What a step did to each part: norms of its weights after it, of its gradient, and of its update."""

    weight_P: Float[Tensor, "P"]
    gradient_P: Float[Tensor, "P"]
    update_P: Float[Tensor, "P"]


@dataclass(frozen=True, eq=False)
class StepMeter:
    """Measures steps, part by part: call `before` and `after` each of them."""

    parts: Sequence[WeightPart]

    @torch.no_grad()
    def before(self, units: int) -> WeightsBefore:
        """Copy the weights, and measure the summed gradients of `units`: the norm is that of their mean, unclipped."""
        weights = [weight for part in self.parts for weight in part.weights()]
        gradients = [gradient for part in self.parts for gradient in part.gradients()]
        given = [self._zeros if gradient is None else gradient for gradient in gradients]
        return WeightsBefore(weights, list(torch._foreach_mul(weights, -1)), self._norms(given) / units)

    @torch.no_grad()
    def after(self, before: WeightsBefore) -> StepNorms:
        """Measure what changed since `before`, whose negative copies become the updates."""
        torch._foreach_add_(before.negative, before.weights)
        return StepNorms(self._norms(before.weights), before.gradient_P, self._norms(before.negative))

    @torch.no_grad()
    def histograms(self, updates: Sequence[Tensor]) -> Int[Tensor, "P B"]:
        """Count the weights of each part that changed by log10 |update|. The host waits for the device."""
        left, counts = iter(updates), list[Tensor]()
        for parts, number_R1 in self._groups:
            values = [filled for part in parts for filled in self._filled(part, left)]
            counts.append(_count(torch.cat(values).view(-1, ROW), number_R1, self._edges_E, len(parts)))
        return torch.cat(counts)

    @cached_property
    def _zeros(self) -> Tensor:
        return self.parts[0].weights()[0].new_zeros(ROW)

    @cached_property
    def _index_PM(self) -> Int[Tensor, "P M"]:
        """The tensors of each part; the number after the last one fills up."""
        counts = [len(part.slices) for part in self.parts]
        numbers = iter(range(sum(counts)))
        rows = [[next(numbers) for _ in range(count)] + [sum(counts)] * (max(counts) - count) for count in counts]
        return torch.tensor(rows, device=self._zeros.device)

    @cached_property
    def _groups(self) -> list[tuple[list[WeightPart], Int[Tensor, "R 1"]]]:
        """Parts that are counted together, with the number of the part that each row belongs to."""
        groups: list[list[WeightPart]] = [[]]
        for part in self.parts:
            if groups[-1] and sum(other.size for other in groups[-1]) + part.size > TOGETHER:
                groups.append([])
            groups[-1].append(part)
        return [(some, _number_rows(some).to(self._zeros.device)) for some in groups]

    @cached_property
    def _edges_E(self) -> Float[Tensor, "E"]:
        """The edges between two bins: what is smaller or larger counts in the first or last one."""
        edges = 10 ** torch.linspace(LOWEST, HIGHEST, BINS + 1, dtype=torch.float64)
        return edges[1:-1].to(self._zeros.device)

    def _norms(self, tensors: Sequence[Tensor]) -> Float[Tensor, "P"]:
        """Return the norm of each part, all of whose tensors count."""
        squares = torch.stack(torch._foreach_norm(list(tensors))).double().square()
        return nn.functional.pad(squares, (0, 1))[self._index_PM].sum(1).sqrt()

    def _filled(self, part: WeightPart, left: Iterator[Tensor]) -> Iterator[Tensor]:
        """Yield the values of a part, and zeros that fill up its last row."""
        for _ in part.slices:
            yield next(left).flatten()
        yield self._zeros[: -part.size % ROW]


def _number_rows(parts: Sequence[WeightPart]) -> Int[Tensor, "R 1"]:
    rows = torch.tensor([-(-part.size // ROW) for part in parts])
    return torch.arange(len(parts), dtype=torch.int32).repeat_interleave(rows).unsqueeze(1)


def _count(values_RV: Tensor, number_R1: Int[Tensor, "R 1"], edges_E: Tensor, parts: int) -> Int[Tensor, "P B"]:
    """Count the values of each part that are not zero, by their size."""
    sizes_RV = (values_RV if values_RV.dtype == torch.float64 else values_RV.float()).abs()
    bins_RV = torch.bucketize(sizes_RV, edges_E.to(sizes_RV.dtype), right=True, out_int32=True)
    bins_RV.add_(1).mul_(sizes_RV != 0)  # zeros have a bin of their own
    counts = bins_RV.add_(number_R1 * (BINS + 1)).flatten().bincount(minlength=parts * (BINS + 1))
    return counts.view(parts, BINS + 1)[:, 1:]
