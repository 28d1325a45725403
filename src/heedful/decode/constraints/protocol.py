"""The protocol of constraints: which tokens may follow a hypothesis, or should rather not.

A search has a tuple of them; they only lower scores, so what one of them forbids stays forbidden. A row that no token
may follow is dropped; where that leaves a sentence without any row, the search finishes its hypotheses as they are.

Constraints are made for each batch by factories, from its queries: see `SearchSettings.constraints`. Some factories
also make their constraint for a search in slots, whose steps are recorded (`SlotFactory`).

Shape letter of this file: S  slots
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.decode.query import Query


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


ConstraintFactory = Callable[[Sequence[Query], torch.device], Constraint]  # called with the queries of a batch


Part = TypeVar("Part", bound="OfSentences")


@dataclass(frozen=True)
class OfSentences:
    """A dataclass about the sentences of a batch: its tensors have a row for each, and its other parts may be alike."""

    def select(self: Part, sentences: Int[Tensor, "A"]) -> Part:
        """Keep only these sentences."""
        return replace(self, **{one.name: _select(getattr(self, one.name), sentences) for one in fields(self)})

    def join(self: Part, other: Part) -> Part:
        """Return these sentences and then those of the other, whose parts that are of no sentence are alike."""
        both = {one.name: _join(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)}
        return replace(self, **both)


def _select(part: Any, sentences: Int[Tensor, "A"]) -> Any:
    match part:
        case Tensor():
            return part[sentences]
        case OfSentences():
            return part.select(sentences)
        case tuple():  # of constraints
            return tuple(one.select(sentences) for one in part)
        case _:
            return part


def _join(part: Any, other: Any) -> Any:
    match part:
        case Tensor():
            return torch.cat([part, other])
        case OfSentences():
            return part.join(other)
        case _:
            return part


class Timeless(ABC):
    """A constraint without a state: it looks at the tokens alone, and is the same for every sentence and step.

    It is also its own factory. Before the tokens of a sentence that joined others is `<pad>`, which the rule must take
    as tokens that differ from all others.
    """

    counts: ClassVar[bool] = False  # whether it looks at the number of tokens, and so at what is before the first

    def __call__(self, queries: Sequence[Query], device: torch.device) -> "Timeless":
        """Return this rule, for any batch."""
        return self

    @abstractmethod
    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Write minus infinity where a token may not follow."""

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "Timeless":
        """Return this rule."""
        return self

    def select(self, sentences: Int[Tensor, "A"]) -> "Timeless":
        """Return this rule."""
        return self


# --- with a beam -----------------------------------------------------------------------------------------------------


class Sharing(ABC):
    """A constraint that something must occur: rows share a beam by how much of it is left to them.

    What it knows of the rows of a step is known after `forbid`.
    """

    requires: bool  # whether anything must occur in any sentence
    requires_B: Bool[Tensor, "B"]  # in which sentences

    @abstractmethod
    def advancing(self) -> Int[Tensor, "R F"]:
        """Return tokens after which less is left to a row; `<pad>` fills up."""

    @abstractmethod
    def left(self, tokens_RC: Int[Tensor, "R C"]) -> Int[Tensor, "R C"]:
        """Return how much is left to each row after each of these tokens."""


# --- in slots ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SlotRows:
    """The rows of a search in slots: S slots with K rows each, so R = S * K."""

    slots: int
    beams: int
    room: int  # maximum number of tokens of a row
    vocab_size: int
    device: torch.device


@runtime_checkable
class SlotConstraint(Protocol):
    """A rule for the tokens of S slots with K rows each, on buffers that never move.

    Its steps can be recorded: shapes are fixed, and nothing is asked of the device. Slots that are done or idle have
    rows too, with any tokens; what is forbidden there does not matter.
    """

    def admit(self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None) -> None:
        """Start sentences in these slots, each with its first token, if not `<s>`."""
        ...

    def forbid(self, scores_RV: Float[Tensor, "R V"]) -> None:
        """Write minus infinity, in place, where a token may not follow; lower what should rather not follow."""
        ...

    def follow(self, rows_R: Int[Tensor, "R"] | None, last_R: Int[Tensor, "R"]) -> None:
        """Go to the next step: row r extends the row rows[r] of its slot, or itself, by the token last[r]."""
        ...


@runtime_checkable
class SlotFactory(Protocol):
    """A factory whose constraint can also be made for slots.

    It can be hashed. Equal factories make constraints that share what was recorded, so everything that differs between
    sentences comes from their queries, or from the factory of each search: see `ConstraintsInSlots.renew`.
    """

    def __call__(self, queries: Sequence[Query], device: torch.device) -> Constraint:
        """Make the constraint of a batch."""
        ...

    def in_slots(self, rows: SlotRows) -> SlotConstraint:
        """Make the constraint of slots, all of them idle."""
        ...


# --- all constraints of a search --------------------------------------------------------------------------------------


def follow(
    constraints: Sequence[Constraint], parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]
) -> tuple[Constraint, ...]:
    """Return the rules for the next step."""
    return tuple(constraint.follow(parents_BK, last_BK) for constraint in constraints)
