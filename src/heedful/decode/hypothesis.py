"""What a search finds."""

from collections.abc import Sequence
from dataclasses import dataclass

from heedful.data.tokenizer import END


@dataclass(frozen=True)
class Hypothesis:
    """One target sequence with its scores."""

    tokens: tuple[int, ...]  # pieces, without `</s>`
    score: float  # what hypotheses are ranked by: log P over the length penalty
    log_probability: float  # log P of the tokens, and of `</s>` where the hypothesis is complete
    complete: bool  # False where the maximum length came before `</s>`

    @classmethod
    def of(cls, decoded: Sequence[int], score: float, log_probability: float) -> "Hypothesis":
        """Take what a decoder put out; `</s>`, and whatever stands behind it, is cut off."""
        complete = END in decoded
        tokens = decoded[: decoded.index(END)] if complete else decoded
        return cls(tuple(tokens), score, log_probability, complete)

    @property
    def length(self) -> int:
        """How many tokens were decoded, `</s>` among them."""
        return len(self.tokens) + self.complete
