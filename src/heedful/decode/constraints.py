"""What a hypothesis may go on with.

Constraints stand in a tuple; what one of them forbids stays forbidden. A row that may go on with nothing is impossible;
where that leaves a sentence with nothing at all, the search finishes its hypotheses as they stand.

Shape letter of this file: P  tokens of the longest prefix
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN

# No search proposes these: markers of ours, and a piece that says nothing to a reader.
NEVER: Final = (PAD, BEGIN, UNKNOWN)


@runtime_checkable
class Constraint(Protocol):
    """A rule over the tokens of B sentences, K rows each.

    It may compute what it forbids from the tokens of each row, or carry what it knows of them from step to step.
    """

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Put minus infinity, in place, where a token may not follow the row's tokens, of which `<s>` is the first."""
        ...

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "Constraint":
        """The rule for the next step: row k of a sentence goes on from its row parents[k], by the token last[k].

        Without parents each row goes on from itself.
        """
        ...

    def select(self, sentences: Int[Tensor, "A"]) -> "Constraint":
        """Keep only these sentences."""
        ...


class Timeless(ABC):
    """A constraint that computes all from the tokens, and is the same for every sentence and step."""

    @abstractmethod
    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Put minus infinity where a token may not follow."""

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "Timeless":
        """The rule for the next step: this one."""
        return self

    def select(self, sentences: Int[Tensor, "A"]) -> "Timeless":
        """Keep only these sentences."""
        return self


@dataclass(frozen=True, eq=False)
class Never(Timeless):
    """Some tokens stand nowhere."""

    tokens: Int[Tensor, "tokens"]

    @classmethod
    def of(cls, tokens: Sequence[int], device: torch.device) -> "Never":
        """Forbid these tokens, and those that no search proposes."""
        return cls(torch.tensor([*NEVER, *tokens], device=device))

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid them after anything."""
        scores_RV.index_fill_(1, self.tokens, -math.inf)


@dataclass(frozen=True)
class NoRepeat(Timeless):
    """No n-gram stands twice in a hypothesis      Paulus et al. 2018, 2.5"""

    size: int

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid what followed the last n - 1 tokens before. `<s>` and `</s>` stand once anyway."""
        if tokens_RT.shape[1] < self.size:
            return
        grams_RGN = tokens_RT.unfold(1, self.size, 1)
        last_R1N = tokens_RT[:, None, tokens_RT.shape[1] - self.size + 1 :]
        again_RG = (grams_RGN[:, :, :-1] == last_R1N).all(2)
        bound_RG = torch.where(again_RG, -math.inf, math.inf).to(scores_RV.dtype)
        scores_RV.scatter_reduce_(1, grams_RGN[:, :, -1], bound_RG, "amin")


@dataclass(frozen=True)
class MinLength(Timeless):
    """A hypothesis has at least so many tokens, `</s>` not counted."""

    tokens: int

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid `</s>` while there are fewer."""
        if tokens_RT.shape[1] - 1 < self.tokens:
            scores_RV[:, END] = -math.inf


@dataclass(frozen=True, eq=False)
class Prefix:
    """Each target begins with given tokens. The other constraints hold where these end: a prefix is taken as it is."""

    tokens_BP: Int[Tensor, "B P"]  # `<pad>` behind a prefix
    others: tuple[Constraint, ...] = ()

    @classmethod
    def of(
        cls, prefixes: Sequence[Sequence[int]], device: torch.device, others: tuple[Constraint, ...] = ()
    ) -> "Prefix":
        """Take a prefix for each sentence; an empty one leaves it free."""
        longest = max(len(prefix) for prefix in prefixes)
        padded = [[*prefix, *[PAD] * (longest - len(prefix))] for prefix in prefixes]
        return cls(torch.tensor(padded, dtype=torch.int64, device=device).view(len(prefixes), longest), others)

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid all but the prefix's next token; where it has ended, what the others forbid."""
        place = tokens_RT.shape[1] - 1
        if place >= self.tokens_BP.shape[1]:
            self._forbid_others(scores_RV, tokens_RT)
            return
        beams = tokens_RT.shape[0] // self.tokens_BP.shape[0]
        wanted_R1 = self.tokens_BP[:, place].repeat_interleave(beams).unsqueeze(1)
        ended_R1 = wanted_R1 == PAD
        given_R1 = scores_RV.gather(1, wanted_R1)
        self._forbid_others(scores_RV, tokens_RT)
        left_R1 = torch.where(ended_R1, scores_RV.gather(1, wanted_R1), given_R1)
        scores_RV.masked_fill_(~ended_R1, -math.inf).scatter_(1, wanted_R1, left_R1)

    def _forbid_others(self, scores_RV: Tensor, tokens_RT: Tensor) -> None:
        for constraint in self.others:
            constraint.forbid(scores_RV, tokens_RT)

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "Prefix":
        """The rule for the next step."""
        return replace(self, others=follow(self.others, parents_BK, last_BK))

    def select(self, sentences: Int[Tensor, "A"]) -> "Prefix":
        """Keep only these sentences."""
        return Prefix(self.tokens_BP[sentences], select(self.others, sentences))


def follow(
    constraints: Sequence[Constraint], parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]
) -> tuple[Constraint, ...]:
    """The rules for the next step."""
    return tuple(constraint.follow(parents_BK, last_BK) for constraint in constraints)


def select(constraints: Sequence[Constraint], sentences: Int[Tensor, "A"]) -> tuple[Constraint, ...]:
    """The rules for these sentences alone."""
    return tuple(constraint.select(sentences) for constraint in constraints)
