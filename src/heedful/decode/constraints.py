"""Constraints: which tokens may follow a hypothesis, or should rather not.

A search has a tuple of them; they only lower scores, so what one of them forbids stays forbidden. A row that no token
may follow is dropped; where that leaves a sentence without any row, the search finishes its hypotheses as they are.

Constraints are made for each batch by factories, from its queries: see `SearchSettings.constraints`.

Shape letter of this file: P  tokens of the longest prefix, or of the longest source
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN
from heedful.decode.query import Query, token_ids

# No search outputs these: markers of ours, and a token that tells a reader nothing.
NEVER: Final = (PAD, BEGIN, UNKNOWN)


@runtime_checkable
class Constraint(Protocol):
    """A rule for the tokens of B sentences with K rows each.

    It may compute what it forbids from the tokens of each row, or carry a state from step to step.
    """

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Write minus infinity, in place, where a token may not follow the row's tokens; the first is `<s>`.

        What should rather not follow gets a lower score.
        """
        ...

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "Constraint":
        """Return the rule for the next step: row k of a sentence extends its row parents[k] by the token last[k].

        Without parents each row extends itself.
        """
        ...

    def select(self, sentences: Int[Tensor, "A"]) -> "Constraint":
        """Keep only these sentences."""
        ...


class Timeless(ABC):
    """A constraint without a state: it looks at the tokens alone, and is the same for every sentence and step."""

    @abstractmethod
    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Write minus infinity where a token may not follow."""

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "Timeless":
        """Return this rule."""
        return self

    def select(self, sentences: Int[Tensor, "A"]) -> "Timeless":
        """Return this rule."""
        return self


@dataclass(frozen=True, eq=False)
class Never(Timeless):
    """Some tokens are never output."""

    tokens: Int[Tensor, "tokens"]

    @classmethod
    def of(cls, tokens: Sequence[int], device: torch.device) -> "Never":
        """Forbid these tokens, and those that no search outputs."""
        return cls(torch.tensor([*NEVER, *tokens], device=device))

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid them after anything."""
        scores_RV.index_fill_(1, self.tokens, -math.inf)


@dataclass(frozen=True)
class NoRepeat(Timeless):
    """No n-gram occurs twice in a hypothesis      Paulus et al. 2018, 2.5"""

    size: int

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid what followed earlier occurrences of the last n - 1 tokens. `<s>` and `</s>` occur once anyway."""
        if tokens_RT.shape[1] < self.size:
            return
        grams_RGN = tokens_RT.unfold(1, self.size, 1)
        last_R1N = tokens_RT[:, None, tokens_RT.shape[1] - self.size + 1 :]
        again_RG = (grams_RGN[:, :, :-1] == last_R1N).all(2)
        bound_RG = torch.where(again_RG, -math.inf, math.inf).to(scores_RV.dtype)
        scores_RV.scatter_reduce_(1, grams_RGN[:, :, -1], bound_RG, "amin")


@dataclass(frozen=True)
class MinLength(Timeless):
    """A hypothesis has at least this number of tokens, without `</s>`."""

    tokens: int

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid `</s>` after fewer tokens."""
        if tokens_RT.shape[1] - 1 < self.tokens:
            scores_RV[:, END] = -math.inf


@dataclass(frozen=True, eq=False)
class RepetitionPenalty:
    """x_v / penalty where x_v > 0, x_v * penalty elsewhere, if token v occurred before      Keskar et al. 2019, 4.1

    The paper divides every score, which would favour repetition where scores are negative. Scores only fall, so that
    the bounds of a beam search hold; hypotheses are ranked by what is left of them.
    """

    penalty: float
    sources_BP: Int[Tensor, "B P"]  # tokens of the sources that are continued; the last one fills up

    @classmethod
    def of(cls, penalty: float, sources: Sequence[Sequence[int]], device: torch.device) -> "RepetitionPenalty":
        """Penalise the tokens of each source, and those that follow it."""
        longest = max(map(len, sources))
        filled = [[*source, *[source[-1]] * (longest - len(source))] for source in sources]
        return cls(penalty, torch.tensor(filled, dtype=torch.int64, device=device))

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Lower the scores of all tokens that occurred in the source or in the row."""
        sources_RP = self.sources_BP.repeat_interleave(len(tokens_RT) // len(self.sources_BP), 0)
        seen_RV = torch.zeros_like(scores_RV, dtype=torch.bool)
        seen_RV.scatter_(1, torch.cat([sources_RP, tokens_RT], dim=1), True)
        lower_RV = torch.where(scores_RV > 0, scores_RV / self.penalty, scores_RV * self.penalty)
        scores_RV.copy_(torch.where(seen_RV, lower_RV, scores_RV))

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "RepetitionPenalty":
        """Return this rule: the tokens of a row say all."""
        return self

    def select(self, sentences: Int[Tensor, "A"]) -> "RepetitionPenalty":
        """Keep only these sentences."""
        return replace(self, sources_BP=self.sources_BP[sentences])


@dataclass(frozen=True, eq=False)
class Prefix:
    """Each target starts with given tokens. The other constraints apply after them: a prefix is taken as it is."""

    tokens_BP: Int[Tensor, "B P"]  # `<pad>` after the end of a prefix
    others: tuple[Constraint, ...] = ()

    @classmethod
    def of(
        cls, prefixes: Sequence[Sequence[int]], device: torch.device, others: tuple[Constraint, ...] = ()
    ) -> "Prefix":
        """Take one prefix per sentence, which may be empty."""
        longest = max(len(prefix) for prefix in prefixes)
        padded = [[*prefix, *[PAD] * (longest - len(prefix))] for prefix in prefixes]
        return cls(torch.tensor(padded, dtype=torch.int64, device=device).view(len(prefixes), longest), others)

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid all but the next token of the prefix; after its end, what the other constraints forbid."""
        index = tokens_RT.shape[1] - 1
        if index >= self.tokens_BP.shape[1]:
            self._forbid_others(scores_RV, tokens_RT)
            return
        beams = tokens_RT.shape[0] // self.tokens_BP.shape[0]
        wanted_R1 = self.tokens_BP[:, index].repeat_interleave(beams).unsqueeze(1)
        ended_R1 = wanted_R1 == PAD
        given_R1 = scores_RV.gather(1, wanted_R1)
        self._forbid_others(scores_RV, tokens_RT)
        left_R1 = torch.where(ended_R1, scores_RV.gather(1, wanted_R1), given_R1)
        scores_RV.masked_fill_(~ended_R1, -math.inf).scatter_(1, wanted_R1, left_R1)

    def _forbid_others(self, scores_RV: Tensor, tokens_RT: Tensor) -> None:
        for constraint in self.others:
            constraint.forbid(scores_RV, tokens_RT)

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "Prefix":
        """Return the rule for the next step."""
        return replace(self, others=follow(self.others, parents_BK, last_BK))

    def select(self, sentences: Int[Tensor, "A"]) -> "Prefix":
        """Keep only these sentences."""
        return Prefix(self.tokens_BP[sentences], select(self.others, sentences))


# --- factories --------------------------------------------------------------------------------------------------------

ConstraintFactory = Callable[[Sequence[Query], torch.device], Constraint]  # called with the queries of a batch


def never(tokens: Sequence[int]) -> ConstraintFactory:
    """Forbid these tokens, and those that no search outputs."""
    return lambda queries, device: Never.of(tokens, device)


def no_repeat(size: int) -> ConstraintFactory:
    """Forbid n-grams of this size that occurred before."""
    return lambda queries, device: NoRepeat(size)


def at_least(tokens: int) -> ConstraintFactory:
    """Forbid `</s>` after fewer tokens."""
    return lambda queries, device: MinLength(tokens)


def penalise_repetition(penalty: float) -> ConstraintFactory:
    """Lower the scores of tokens that occurred in a source that is continued, or after it."""
    return lambda queries, device: RepetitionPenalty.of(penalty, [token_ids(query.source) for query in queries], device)


def make_constraints(
    factories: Sequence[ConstraintFactory], queries: Sequence[Query], device: torch.device
) -> tuple[Constraint, ...]:
    """Return the constraints of a batch; where queries have prefixes, the others apply after them."""
    made = tuple(factory(queries, device) for factory in factories)
    if any(len(query.prefix) for query in queries):
        return (Prefix.of([query.prefix for query in queries], device, others=made),)
    return made


# --- all constraints of a search --------------------------------------------------------------------------------------


def follow(
    constraints: Sequence[Constraint], parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]
) -> tuple[Constraint, ...]:
    """Return the rules for the next step."""
    return tuple(constraint.follow(parents_BK, last_BK) for constraint in constraints)


def select(constraints: Sequence[Constraint], sentences: Int[Tensor, "A"]) -> tuple[Constraint, ...]:
    """Return the rules for these sentences alone."""
    return tuple(constraint.select(sentences) for constraint in constraints)
