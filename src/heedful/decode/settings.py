"""What a search is told."""

from dataclasses import dataclass, field

from heedful.data.tokenize.tokenizer import END
from heedful.decode.frontiers.sampling import Sampling
from heedful.decode.penalties import Coverage, LengthPenalty, Wu
from heedful.errors import UserError


@dataclass(frozen=True)
class SearchSettings:
    """How wide to search, how far, what the best is, and what is not allowed.

    A hypothesis has at most as many tokens as its source has pieces, plus `max_extra`; `</s>` counts. One that comes so
    far without `</s>` is finished as it stands, is not `complete`, and ranks behind all that are.

    A beam of 1 is greedy search, or with `sampling` draws at random. The penalties then change no hypothesis, only its
    score.
    """

    beam: int = 4
    nbest: int = 1
    max_extra: int = 50
    penalty: LengthPenalty = field(default_factory=lambda: Wu(0.6))
    coverage: float = 0.0  # beta of the coverage penalty; 0 is none
    no_repeat: int = 0  # no n-gram of so many tokens stands twice in a hypothesis; 0 allows all
    min_length: int = 0  # the fewest tokens, `</s>` not counted
    sampling: Sampling | None = None
    aligned: bool = False  # whether hypotheses say which source token each of their tokens attended to most
    never: tuple[int, ...] = ()  # tokens that are never put out, beside markers and `<unk>`

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("nbest", 1), ("max_extra", 1), ("no_repeat", 0), ("min_length", 0)):
            if getattr(self, name) < least:
                raise UserError(f"`{name}` is {getattr(self, name)}, but must be at least {least}.")
        Coverage(self.coverage)  # refuses what makes no sense
        if self.sampling is not None and self.beam > 1:
            raise UserError(
                f"`beam` is {self.beam}, but sampling has no beam: set `beam` to 1, and `samples` to how many targets "
                "are drawn."
            )
        if self.nbest > self.beam:
            raise UserError(self._too_many())
        if END in self.never:
            raise UserError(f"`never` has token {END}, which is `</s>`, but without it no sentence ends: leave it out.")

    def _too_many(self) -> str:
        if self.sampling is not None:
            return f"`nbest` is {self.nbest}, but sampling returns all that is drawn: set `samples` instead."
        return (
            f"`nbest` is {self.nbest}, but a beam of {self.beam} finds no more than {self.beam}: "
            f"set `beam` to {self.nbest} or more."
        )

    @property
    def rows(self) -> int:
        """How many hypotheses of a sentence are in work at once."""
        return self.beam if self.sampling is None else self.sampling.samples

    @property
    def attentive(self) -> bool:
        """Whether the attention of each step is needed."""
        return self.aligned or self.coverage > 0
