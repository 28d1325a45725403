"""The outcome of a check: the values of a text's formula, or its printed numbers, and those of Heedful."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor, nn

Verdict = Literal["same", "corrected", "measured otherwise"]
Values = Tensor | Sequence[float]
_SHOWN: Final = 6  # numbers of a row


@dataclass(frozen=True, eq=False)
class Computed:
    """What a text's formula gives, what Heedful computes, and what the corrected formula gives, where there is one."""

    text: Values
    ours: Values
    right: Values | None = None
    tolerance: float = 1e-6

    @property
    def difference(self) -> float:
        """The largest difference between the text and Heedful."""
        return _difference(self.text, self.ours)

    @property
    def verdict(self) -> Verdict:
        """The verdict that follows from the numbers."""
        if self.difference <= self.tolerance:
            return "same"
        right = self.right is not None and _difference(self.right, self.ours) <= self.tolerance
        return "corrected" if right else "measured otherwise"

    def lines(self) -> list[str]:
        """Return the rows of numbers to print."""
        rows = [("by the text", self.text), ("Heedful", self.ours)]
        rows += [] if self.right is None else [("corrected", self.right)]
        shown = [f"{name:12}" + "  ".join(f"{value:10.5g}" for value in flat(values)[:_SHOWN]) for name, values in rows]
        return [*shown, f"largest difference between the text and Heedful: {self.difference:.3g}"]


def flat(values: Values) -> list[float]:
    """Return values as numbers."""
    found: list[float] = torch.as_tensor(values, dtype=torch.float64).detach().flatten().tolist()
    return found


def _difference(one: Values, other: Values) -> float:
    """Return the largest difference; infinity where the numbers of values differ."""
    a, b = flat(one), flat(other)
    if len(a) != len(b):
        return float("inf")
    return max((0.0 if x == y else abs(x - y) for x, y in zip(a, b, strict=True)), default=0.0)


@contextmanager
def drawn(seed: int = 1) -> Iterator[None]:
    """Draw random numbers from a seed inside the block, and leave torch's generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def numbers(*shape: int) -> Tensor:
    """Draw standard normal numbers."""
    return torch.randn(*shape, dtype=torch.float64)


@torch.no_grad()
def randomize(module: nn.Module) -> nn.Module:
    """Give every weight a random value: zeros, as biases begin, would hide a wrong sign."""
    module.double()
    for weight in module.parameters():
        weight.copy_(0.5 * numbers(*weight.shape))
    return module.eval()
