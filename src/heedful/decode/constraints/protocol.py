"""The protocol of constraints: which tokens may follow a hypothesis, or should rather not.

A search has a tuple of them; they only lower scores, so what one of them forbids stays forbidden. A row that no token
may follow is dropped; where that leaves a sentence without any row, the search finishes its hypotheses as they are.

Constraints are made for each batch by factories, from its queries: see `SearchSettings.constraints`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor


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


# --- all constraints of a search --------------------------------------------------------------------------------------


def follow(
    constraints: Sequence[Constraint], parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]
) -> tuple[Constraint, ...]:
    """Return the rules for the next step."""
    return tuple(constraint.follow(parents_BK, last_BK) for constraint in constraints)


def select(constraints: Sequence[Constraint], sentences: Int[Tensor, "A"]) -> tuple[Constraint, ...]:
    """Return the rules for these sentences alone."""
    return tuple(constraint.select(sentences) for constraint in constraints)
