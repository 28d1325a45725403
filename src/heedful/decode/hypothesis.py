"""Hypotheses, what a search finds, and the penalties that rank them besides log P.

score(y) = log P(y | x) / length penalty + coverage penalty      Wu et al. 2016, 7
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.base.errors import UserError, option
from heedful.data.tokenize.tokenizer import END, PAD

LengthPenalty = Callable[[int], float]  # from a length, `</s>` counted, to a positive divisor


@dataclass(frozen=True)
class Wu:
    """score = log P / ((5 + length) / 6)^alpha      Wu et al. 2016, 7"""

    alpha: float

    def __post_init__(self) -> None:
        _refuse_negative("length_penalty", self.alpha)

    def __call__(self, length: int) -> float:
        """Return the divisor of a length."""
        return _power((5 + length) / 6, self.alpha)


@dataclass(frozen=True)
class Shifted:
    """score = log P / ((1 + length) / (1 + beta))^alpha

    It separates the first few lengths, which Wu's penalty hardly does. The constant beta changes no order by itself; it
    weighs log P against the coverage penalty.
    """

    alpha: float
    beta: float = 0.0

    def __post_init__(self) -> None:
        _refuse_negative("length_penalty", self.alpha)
        _refuse_negative("length_shift", self.beta)

    def __call__(self, length: int) -> float:
        """Return the divisor of a length."""
        return _power((1 + length) / (1 + self.beta), self.alpha)


@dataclass(frozen=True)
class Coverage:
    """cp(x, y) = beta * sum_i log(min(sum_j a_ij, 1))      Wu et al. 2016, eq. 14

    a_ij is the weight of source token i when target token j is chosen; i and j run over all tokens, `</s>` included. A
    source token without any weight counts as the smallest normal number, so that cp stays finite. It is never positive.
    """

    beta: float

    def __post_init__(self) -> None:
        _refuse_negative("coverage", self.beta)

    def __call__(self, sums_BKL: Float[Tensor, "B K L"]) -> Float[Tensor, "B K"]:
        """Return the penalty of hypotheses with these sums of weights, to be added to their scores."""
        return self.beta * sums_BKL.clamp(torch.finfo(sums_BKL.dtype).tiny, 1.0).log().sum(-1)


def greatest_penalty(penalty: LengthPenalty, limit: int) -> float:
    """Return the greatest divisor of the lengths up to a limit."""
    return max(penalty(length) for length in range(1, limit + 1))


def _power(base: float, exponent: float) -> float:
    """Return a power between e^-600 and e^600: a divisor that no exponent makes zero or infinite."""
    reach = abs(math.log(base))
    return float(base ** min(exponent, 600 / reach)) if reach else 1.0


def _refuse_negative(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise UserError(f"{option(name)} is {value}, but must be 0 or more.")


@dataclass(frozen=True)
class Hypothesis:
    """One target sequence with its scores."""

    tokens: tuple[int, ...]  # without `</s>`
    score: float  # for ranking: log P over the length penalty, plus the coverage penalty
    log_probability: float  # log P of the tokens, and of `</s>` where the hypothesis is complete
    complete: bool  # False if it was cut at its maximum length, or where no token was allowed to follow
    # For each token the index of the source token that had the greatest weight when it was chosen; the source's `</s>`
    # has the last index. None unless the search was `aligned`.
    alignment: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls, decoded: Sequence[int], score: float, log_probability: float, indices: Sequence[int] | None = None
    ) -> "Hypothesis":
        """Take the output of a decoder, and cut it off at `</s>` or `<pad>`."""
        complete = END in decoded
        stop = END if complete else PAD
        tokens = tuple(decoded[: decoded.index(stop)] if stop in decoded else decoded)
        return cls(tokens, score, log_probability, complete, None if indices is None else tuple(indices[: len(tokens)]))

    @classmethod
    def scored(
        cls,
        decoded: Sequence[int],
        log_probability: float,
        penalty: LengthPenalty,
        covered: float,
        indices: Sequence[int] | None,
    ) -> "Hypothesis":
        """Take the output of a decoder and score it by the length that is left; `covered` is the coverage penalty."""
        taken = cls.of(decoded, 0.0, log_probability, indices)
        return replace(taken, score=log_probability / penalty(max(1, taken.length)) + covered)

    @property
    def length(self) -> int:
        """The number of tokens decoded, `</s>` included."""
        return len(self.tokens) + self.complete
