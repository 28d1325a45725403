"""Factories of constraints: they make those of a batch from its queries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from heedful.decode.constraints.prefix import Prefix
from heedful.decode.constraints.protocol import Constraint, SlotConstraint, SlotRows
from heedful.decode.constraints.tokens import MinLength, Never, NoRepeat, RepetitionPenalty
from heedful.decode.constraints.tokens_in_slots import RepetitionPenaltyInSlots, TimelessInSlots
from heedful.decode.constraints.words.automaton import WordAutomaton
from heedful.decode.constraints.words.in_slots import ForbiddenWords
from heedful.decode.constraints.words.required_in_slots import RequiredWords
from heedful.decode.query import Query, token_ids

ConstraintFactory = Callable[[Sequence[Query], torch.device], Constraint]  # called with the queries of a batch


def never(tokens: Sequence[int]) -> ConstraintFactory:
    """Forbid these tokens, and those that no search outputs."""
    return lambda queries, device: Never.of(tokens, device)


def no_repeat(size: int) -> ConstraintFactory:
    """Forbid n-grams of this size that occurred before."""
    return _NoRepeatFactory(size)


def at_least(tokens: int) -> ConstraintFactory:
    """Forbid `</s>` after fewer tokens."""
    return lambda queries, device: MinLength(tokens)


def penalise_repetition(penalty: float) -> ConstraintFactory:
    """Lower the scores of tokens that occurred in a source that is continued, or after it."""
    return _RepetitionFactory(penalty)


@dataclass(frozen=True)
class _NoRepeatFactory:
    size: int

    def __call__(self, queries: Sequence[Query], device: torch.device) -> Constraint:
        return NoRepeat(self.size)

    def in_slots(self, rows: SlotRows) -> SlotConstraint:
        return TimelessInSlots(NoRepeat(self.size), rows)


@dataclass(frozen=True)
class _RepetitionFactory:
    penalty: float

    def __call__(self, queries: Sequence[Query], device: torch.device) -> Constraint:
        return RepetitionPenalty.of(self.penalty, [token_ids(query.source) for query in queries], device)

    def in_slots(self, rows: SlotRows) -> SlotConstraint:
        return RepetitionPenaltyInSlots(self.penalty, rows)


def words(automata: Mapping[int, WordAutomaton]) -> ConstraintFactory:
    """Require and forbid words; `automata` are those of the queries, by their numbers."""
    distinct = set(automata.values())
    if len(distinct) == 1 and all(map(ForbiddenWords.fits, distinct)):
        return ForbiddenWords(*distinct)
    factory = RequiredWords.of(automata)
    return factory if factory.fits else lambda queries, device: factory(queries, device)


def make_constraints(
    factories: Sequence[ConstraintFactory], queries: Sequence[Query], device: torch.device
) -> tuple[Constraint, ...]:
    """Return the constraints of a batch; where queries have prefixes, the others apply after them."""
    made = tuple(factory(queries, device) for factory in factories)
    if any(len(query.prefix) for query in queries):
        return (Prefix.of([query.prefix for query in queries], device, others=made),)
    return made
