"""The constraint that targets start with given tokens.

Shape letter of this file: P  tokens of the longest prefix
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import PAD
from heedful.decode.constraints.protocol import (
    Constraint,
    ConstraintFactory,
    OfSentences,
    Sharing,
    SlotConstraint,
    SlotRows,
    follow,
)
from heedful.decode.query import Query


@dataclass(frozen=True, eq=False)
class Prefix(OfSentences):
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
        _forbid_all_but(scores_RV, wanted_R1, lambda: self._forbid_others(scores_RV, tokens_RT))

    def _forbid_others(self, scores_RV: Tensor, tokens_RT: Tensor) -> None:
        for constraint in self.others:
            constraint.forbid(scores_RV, tokens_RT)

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "Prefix":
        """Return the rule for the next step."""
        return replace(self, others=follow(self.others, parents_BK, last_BK))


def make_constraints(
    factories: Sequence[ConstraintFactory], queries: Sequence[Query], device: torch.device
) -> tuple[Constraint, ...]:
    """Return the constraints of a batch; where queries have prefixes, the others apply after them."""
    made = tuple(factory(queries, device) for factory in factories)
    if any(len(query.prefix) for query in queries):
        return (Prefix.of([query.prefix for query in queries], device, others=made),)
    return made


def find_sharing(constraints: Sequence[Constraint]) -> Sharing | None:
    """Return the constraint by which a beam is shared out, if there is one that needs it."""
    every = [*constraints, *(other for one in constraints if isinstance(one, Prefix) for other in one.others)]
    return next((one for one in every if isinstance(one, Sharing) and one.requires), None)


class PrefixInSlots:
    """The rule of `Prefix`, on buffers that never move."""

    def __init__(self, others: Sequence[SlotConstraint], rows: SlotRows) -> None:
        self._others, self._beams = others, rows.beams
        self._tokens_SP = torch.full((rows.slots, rows.room + 1), PAD, device=rows.device)
        self._index_S1 = torch.zeros((rows.slots, 1), dtype=torch.int64, device=rows.device)  # of the next token

    def admit(self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None) -> None:
        """Start with the first tokens of the prefixes."""
        for other in self._others:
            other.admit(slots, queries, firsts)
        prefixes_AP = Prefix.of([query.prefix for query in queries], slots.device).tokens_BP
        self._tokens_SP[slots] = PAD
        self._tokens_SP[slots, : prefixes_AP.shape[1]] = prefixes_AP
        self._index_S1[slots] = 0

    def forbid(self, scores_RV: Float[Tensor, "R V"]) -> None:
        """Forbid all but the next token of the prefix; after its end, what the other constraints forbid."""
        wanted_S1 = self._tokens_SP.gather(1, self._index_S1)
        wanted_R1 = wanted_S1.expand(-1, self._beams).reshape(-1, 1)
        _forbid_all_but(scores_RV, wanted_R1, lambda: self._forbid_others(scores_RV))

    def _forbid_others(self, scores_RV: Tensor) -> None:
        for other in self._others:
            other.forbid(scores_RV)

    def follow(self, rows_R: Int[Tensor, "R"] | None, last_R: Int[Tensor, "R"]) -> None:
        """Go to the next step."""
        for other in self._others:
            other.follow(rows_R, last_R)
        self._index_S1.add_(1).clamp_(max=self._tokens_SP.shape[1] - 1)  # a slot that is done goes on


def _forbid_all_but(
    scores_RV: Float[Tensor, "R V"], wanted_R1: Int[Tensor, "R 1"], forbid_others: Callable[[], None]
) -> None:
    """Forbid all but the wanted token of each row; where that is `<pad>`, only what the others forbid."""
    ended_R1 = wanted_R1 == PAD
    given_R1 = scores_RV.gather(1, wanted_R1)
    forbid_others()
    left_R1 = torch.where(ended_R1, scores_RV.gather(1, wanted_R1), given_R1)
    scores_RV.masked_fill_(~ended_R1, -math.inf).scatter_(1, wanted_R1, left_R1)
