"""The outcome of a check: the values of a text's formula, or its printed numbers, and those of Heedful.

What a check draws is kept, so that other code can recompute its values: `heedful texts ID --json` writes both.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor, nn

Verdict = Literal["same", "corrected", "measured otherwise"]
Values = Tensor | Sequence[float]
Input = Tensor | Mapping[str, Tensor]  # numbers, or the weights of a module by their names
_SHOWN: Final = 6  # numbers of a row
_inputs: ContextVar[list[Input] | None] = ContextVar("inputs", default=None)


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


def values_of(computed: Computed, inputs: Sequence[Input]) -> dict[str, object]:
    """Return all numbers of a check for JSON: what went in, and what came out by the text, by Heedful and corrected.

    A value that is not finite is None.
    """
    named = {"text": computed.text, "heedful": computed.ours, "corrected": computed.right}
    return {
        "inputs": [
            values.tolist() if isinstance(values, Tensor) else {name: one.tolist() for name, one in values.items()}
            for values in inputs
        ],
        "values": {
            name: [one if math.isfinite(one) else None for one in flat(values)]
            for name, values in named.items()
            if values is not None
        },
    }


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


def compute(check: Callable[[], Computed]) -> tuple[Computed, list[Input]]:
    """Run a check; return its outcome and its random inputs in the order in which it drew them."""
    inputs: list[Input] = []
    token = _inputs.set(inputs)
    try:
        return check(), inputs
    finally:
        _inputs.reset(token)


def numbers(*shape: int) -> Tensor:
    """Draw standard normal numbers, which are an input of the check."""
    return given(_normal(*shape))


@torch.no_grad()
def randomize(module: nn.Module) -> nn.Module:
    """Give every weight a random value: zeros, as biases begin, would hide a wrong sign. They are an input too."""
    module.double()
    for weight in module.parameters():
        weight.copy_(0.5 * _normal(*weight.shape))
    _keep({name: weight.detach().clone() for name, weight in module.named_parameters()})
    return module.eval()


def given(values: Tensor) -> Tensor:
    """Return numbers that a check has drawn in another way, as an input of the check."""
    _keep(values.detach().clone())
    return values


def _keep(values: Input) -> None:
    inputs = _inputs.get()
    if inputs is not None:
        inputs.append(values)


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)
