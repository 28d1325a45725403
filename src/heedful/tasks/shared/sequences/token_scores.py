"""Log probabilities of the tokens of a text."""

from dataclasses import dataclass
from typing import Final

END_PIECE: Final = "</s>"
LONGEST_SCORED: Final = 10_000  # tokens of a side of a pair: time and memory grow with the square of it


@dataclass(frozen=True)
class TokenScores:
    """The log probability that a model gives to each token of a text."""

    pieces: tuple[str, ...]  # pieces in readable form (see `Tokenizer.pieces`), then `</s>` where the text has an end
    log_probabilities: tuple[float, ...]  # one per piece

    @property
    def log_probability(self) -> float:
        """Log probability of the whole text."""
        return sum(self.log_probabilities)

    @property
    def per_piece(self) -> float:
        """Mean over the pieces, by which texts of different lengths can be compared."""
        return self.log_probability / max(1, len(self.log_probabilities))
