"""Greedy search: the most probable next token, again and again."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from heedful.decode.choices import Scores


@dataclass(frozen=True)
class Greedy:
    """Chooses the best token of each row: what a beam of one finds, whatever the length penalty.

    A beam of one with a coverage penalty looks further: the best token may end a sentence before it is covered.
    """

    def choose(self, scores: Scores, step: int) -> tuple[Float[Tensor, "R"], Int[Tensor, "R"]]:
        """The log P and the token of each row."""
        log_p_R1, tokens_R1 = scores.best(1)
        return log_p_R1.squeeze(1), tokens_R1.squeeze(1)

    def select(self, sentences: Int[Tensor, "A"]) -> "Greedy":
        """Keep only these sentences."""
        return self
