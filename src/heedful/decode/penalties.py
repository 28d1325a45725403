"""Length penalties: what log P is divided by, so that long sequences can compete with short ones."""

from collections.abc import Callable
from dataclasses import dataclass

LengthPenalty = Callable[[int], float]  # from a length, `</s>` counted, to a positive divisor


@dataclass(frozen=True)
class Wu:
    """score = log P / ((5 + length) / 6)^alpha      Wu et al. 2016, 7"""

    alpha: float

    def __call__(self, length: int) -> float:
        """Return the divisor of a length."""
        return float(((5 + length) / 6) ** self.alpha)
