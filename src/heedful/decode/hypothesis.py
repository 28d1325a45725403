"""Hypotheses: what a search finds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from heedful.data.tokenize.tokenizer import END, PAD
from heedful.decode.penalties import LengthPenalty


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
