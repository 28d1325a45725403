"""Length penalties: what log P is divided by, so that long sequences can compete with short ones."""

from collections.abc import Callable
from dataclasses import dataclass

from heedful.errors import UserError

LengthPenalty = Callable[[int], float]  # from a length, `</s>` counted, to a positive divisor


@dataclass(frozen=True)
class Wu:
    """score = log P / ((5 + length) / 6)^alpha      Wu et al. 2016, 7"""

    alpha: float

    def __post_init__(self) -> None:
        if not self.alpha >= 0:
            raise UserError(f"`length_penalty` is {self.alpha}, but must be 0 or more.")

    def __call__(self, length: int) -> float:
        """Return the divisor of a length."""
        return float(((5 + length) / 6) ** self.alpha)
