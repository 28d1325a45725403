"""What a search finds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from heedful.data.tokenize.tokenizer import END, PAD
from heedful.decode.penalties import LengthPenalty


@dataclass(frozen=True)
class Hypothesis:
    """One target sequence with its scores."""

    tokens: tuple[int, ...]  # pieces, without `</s>`
    score: float  # what hypotheses are ranked by: log P over the length penalty, plus the coverage penalty
    log_probability: float  # log P of the tokens, and of `</s>` where the hypothesis is complete
    complete: bool  # False where the maximum length came before `</s>`, or where nothing was allowed to follow
    # For each token the place of the source token that had the greatest weight when it was chosen; the source's `</s>`
    # has the last place. None where the search was not told to be `aligned`.
    alignment: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls, decoded: Sequence[int], score: float, log_probability: float, places: Sequence[int] | None = None
    ) -> "Hypothesis":
        """Take what a decoder put out; `</s>` or `<pad>`, and whatever stands behind it, is cut off."""
        complete = END in decoded
        stop = END if complete else PAD
        tokens = tuple(decoded[: decoded.index(stop)] if stop in decoded else decoded)
        return cls(tokens, score, log_probability, complete, None if places is None else tuple(places[: len(tokens)]))

    @classmethod
    def scored(
        cls,
        decoded: Sequence[int],
        log_probability: float,
        penalty: LengthPenalty,
        covered: float,
        places: Sequence[int] | None,
    ) -> "Hypothesis":
        """The same, with the score of the length that is left; `covered` is the coverage penalty."""
        taken = cls.of(decoded, 0.0, log_probability, places)
        return replace(taken, score=log_probability / penalty(max(1, taken.length)) + covered)

    @property
    def length(self) -> int:
        """How many tokens were decoded, `</s>` among them."""
        return len(self.tokens) + self.complete
