"""Settings of a search."""

import math
from dataclasses import dataclass, field

from heedful.base.arguments import check_number, check_whole
from heedful.base.errors import UserError, by_caller, option
from heedful.config.decode import MOST
from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.factories import ConstraintFactory, at_least, never, no_repeat
from heedful.decode.penalties import Coverage, LengthPenalty, Wu

_SEEDS = 2**64


@dataclass(frozen=True)
class Sampling:
    """How to sample: `samples` independent targets per sentence, in the order in which they are drawn.

    P_t(v) ~ exp(score_v / temperature), among the k most probable (Fan et al. 2018),
             and of these among the fewest that have p of the probability (Holtzman et al. 2020),
             and of these among those with at least `min_p` times the greatest probability (Nguyen et al. 2024)
    """

    temperature: float = 1.0
    top_k: int = 0  # 0 keeps all; tokens as probable as the last one are kept too
    top_p: float = 1.0  # 1 keeps all
    samples: int = 1
    seed: int = 0
    min_p: float = 0.0  # 0 keeps all

    def __post_init__(self) -> None:
        for name in ("top_k", "samples", "seed"):
            check_whole(name, getattr(self, name))
        for name in ("temperature", "top_p", "min_p"):
            check_number(name, getattr(self, name))
        if not 0 < self.temperature < math.inf:
            raise UserError(
                f"{option('temperature')} is {self.temperature}, but must be more than 0: greedy search is a "
                f"{option('beam')} of 1 without sampling."
            )
        if self.top_k < 0:
            raise UserError(f"{option('top_k')} is {self.top_k}, but must be 1 or more, or 0 for all tokens.")
        if not 0 < self.top_p <= 1:
            raise UserError(
                f"{option('top_p')} is {self.top_p}, but must be more than 0 and at most 1, which is all tokens."
            )
        if not 0 <= self.min_p <= 1:
            raise UserError(f"{option('min_p')} is {self.min_p}, but must be from 0, which is all tokens, to 1.")
        if self.samples < 1:
            raise UserError(f"{_samples()} is {self.samples}, but must be at least 1.")
        if self.samples > MOST["beam"]:
            raise UserError(
                f"{_samples()} is {self.samples:,}, but must be at most {MOST['beam']:,}: draw them in parts."
            )
        if not 0 <= self.seed < _SEEDS:
            raise UserError(f"{option('seed')} is {self.seed}, but must be 0 or more, and less than 2^64.")


def _samples() -> str:
    """Return how the caller sets the number of samples: the flags of commands differ."""
    return by_caller("The number of samples", "`samples`")


@dataclass(frozen=True)
class SearchSettings:
    """How wide and how far to search, how to rank hypotheses, and what to forbid.

    A hypothesis that reaches its query's limit without `</s>` is cut there: it is not `complete`, and ranks after all
    that are. A beam of 1 is greedy search, or with `sampling` random sampling; penalties then change only the scores.
    """

    beam: int = 4
    nbest: int = 1
    max_extra: int = 50  # limit of a target: source length + max_extra; for the task, which sets the limit of a query
    penalty: LengthPenalty = field(default_factory=lambda: Wu(0.6))
    coverage: float = 0.0  # beta of the coverage penalty; 0 is none
    no_repeat: int = 0  # never repeat an n-gram of this length; 0 allows all
    min_length: int = 0  # minimum number of tokens, without `</s>`
    sampling: Sampling | None = None
    aligned: bool = False  # whether hypotheses say which source token each of their tokens attended to most
    never: tuple[int, ...] = ()  # tokens that are never output, besides markers and `<unk>`
    constraints: tuple[ConstraintFactory, ...] = ()  # further rules, made for each batch from its queries

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("nbest", 1), ("max_extra", 1), ("no_repeat", 0), ("min_length", 0)):
            if getattr(self, name) < least:
                raise UserError(f"{option(name)} is {getattr(self, name)}, but must be at least {least}.")
            if getattr(self, name) > MOST.get(name, math.inf):
                raise UserError(f"{option(name)} is {getattr(self, name):,}, but must be at most {MOST[name]:,}.")
        Coverage(self.coverage)  # refuses negative numbers
        if self.sampling is not None and self.beam > 1:
            raise UserError(
                f"{option('beam')} is {self.beam}, but sampling has no beam: set {option('beam')} to 1, and "
                "`samples` to the number of targets to draw."
            )
        if self.nbest > self.beam:
            raise UserError(self._too_many())
        if END in self.never:
            raise UserError(f"`never` has token {END}, which is `</s>`, but without it no sentence ends: leave it out.")

    def _too_many(self) -> str:
        if self.sampling is not None:
            return f"{option('nbest')} is {self.nbest}, but sampling returns all that is drawn: set `samples` instead."
        return (
            f"{option('nbest')} is {self.nbest}, but a beam of {self.beam} finds no more than {self.beam}: "
            f"set {option('beam')} to {self.nbest} or more."
        )

    @property
    def rules(self) -> tuple[ConstraintFactory, ...]:
        """Factories of all constraints: those that the settings name, and then those of `constraints`."""
        named = [never(self.never)]
        if self.no_repeat:
            named.append(no_repeat(self.no_repeat))
        if self.min_length:
            named.append(at_least(self.min_length))
        return (*named, *self.constraints)

    @property
    def rows(self) -> int:
        """The number of hypotheses that a sentence has at once."""
        return self.beam if self.sampling is None else self.sampling.samples

    @property
    def attentive(self) -> bool:
        """Whether the search needs the attention of each step."""
        return self.aligned or self.coverage > 0
