"""Settings of a search."""

from dataclasses import dataclass, field
from typing import Final

from heedful.base.arguments import check_whole
from heedful.base.errors import UserError, option
from heedful.base.options import options_of
from heedful.config.decode import DecodeOptions, Sampling
from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.protocol import ConstraintFactory
from heedful.decode.constraints.tokens import MinLength, Never, NoRepeat
from heedful.decode.hypothesis import LengthPenalty, Wu

_KEYS: Final = ("beam", "max_extra", "coverage", "no_repeat", "min_length")  # that a recipe's [decode] has too


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
        for name in _KEYS:
            options_of(DecodeOptions)[name].check(name, getattr(self, name))
        check_whole("nbest", self.nbest, least=1)
        if self.sampling is not None and self.beam > 1:
            raise UserError(
                f"{option('beam')} is {self.beam}, but sampling has no beam: set {option('beam')} to 1, and "
                "`samples` to the number of targets to draw."
            )
        if self.nbest > self.beam and self.sampling is not None:
            raise UserError(
                f"{option('nbest')} is {self.nbest}, but sampling returns all that is drawn: set `samples` instead."
            )
        if self.nbest > self.beam:
            raise UserError(
                f"{option('nbest')} is {self.nbest}, but a beam of {self.beam} finds no more than {self.beam}: "
                f"set {option('beam')} to {self.nbest} or more."
            )
        if END in self.never:
            raise UserError(f"`never` has token {END}, which is `</s>`, but without it no sentence ends: leave it out.")

    @property
    def rules(self) -> tuple[ConstraintFactory, ...]:
        """Factories of all constraints: those that the settings name, and then those of `constraints`."""
        named: list[ConstraintFactory] = [lambda queries, device: Never.of(self.never, device)]
        if self.no_repeat:
            named.append(NoRepeat(self.no_repeat))
        if self.min_length:
            named.append(MinLength(self.min_length))
        return (*named, *self.constraints)

    @property
    def rows(self) -> int:
        """The number of hypotheses that a sentence has at once."""
        return self.beam if self.sampling is None else self.sampling.samples

    @property
    def attentive(self) -> bool:
        """Whether the search needs the attention of each step."""
        return self.aligned or self.coverage > 0
