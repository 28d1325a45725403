"""Log probabilities of the tokens of a text, and which texts are too long to have any."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from heedful.base.errors import UserError

END_PIECE: Final = "</s>"
LONGEST_SCORED: Final = 10_000  # tokens of a side of a pair: time and memory grow with the square of it


def refuse_long_side(tokens: Sequence[int], where: str, way_out: str = "split it, or leave the pair out") -> None:
    """Refuse a text that is too long to be scored in seconds; `where` names it in messages."""
    if len(tokens) > LONGEST_SCORED:
        raise UserError(f"{where} has {len(tokens):,} tokens, but at most {LONGEST_SCORED:,} are scored: {way_out}.")


def refuse_side_without_positions(
    tokens: Sequence[int], longest: int | None, key: str, where: str, way_out: str = "leave the pair out"
) -> None:
    """Refuse a text for which a decoder has too few positions, with its end marker; `key` sets their number."""
    if longest is not None and len(tokens) + 1 > longest:
        raise UserError(
            f"{where} has {len(tokens) + 1:,} tokens with `</s>`, but this model has positions for {longest:,} "
            f"(`model.{key}`): {way_out}."
        )


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
