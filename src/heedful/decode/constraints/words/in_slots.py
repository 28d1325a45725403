"""Forbidden words in slots: the automaton that all sentences share, as two tables over its states and the vocabulary.

Where sentences require words, or differ in those that are forbidden, each slot has tables: see `required_in_slots.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.decode.constraints.protocol import SlotRows
from heedful.decode.constraints.words.automaton import WordAutomaton
from heedful.decode.constraints.words.constraint import Words
from heedful.decode.constraints.words.distances import UNREACHED
from heedful.decode.constraints.words.states import AFTER_OTHER
from heedful.decode.query import Query

_LARGEST: Final = 2**22  # entries of a table


@dataclass(frozen=True)
class ForbiddenWords:
    """A factory: no target contains the forbidden words of one automaton."""

    automaton: WordAutomaton

    @staticmethod
    def fits(automaton: WordAutomaton) -> bool:
        """Whether an automaton has forbidden words alone, and its tables are small."""
        return not automaton.required and len(automaton.root_S) * automaton.spelling.size <= _LARGEST

    def __call__(self, queries: Sequence[Query], device: torch.device) -> Words:
        """Make the constraint of a batch."""
        return Words.of([self.automaton] * len(queries), [query.limit for query in queries], device)

    def in_slots(self, rows: SlotRows) -> "ForbiddenInSlots":
        """Make the constraint of slots."""
        return ForbiddenInSlots(self.automaton, rows)


class ForbiddenInSlots:
    """The rule of `Words` for forbidden words alone, on buffers that never move."""

    def __init__(self, automaton: WordAutomaton, rows: SlotRows) -> None:
        count = rows.slots * rows.beams
        self._beams, self._size = rows.beams, rows.vocab_size
        self._left_SV = _left_after_tokens(automaton, rows.vocab_size, rows.device)
        self._next_N = _states_after_tokens(automaton, rows.vocab_size, rows.device).flatten()
        self._state_R = torch.full((count,), AFTER_OTHER, device=rows.device)
        self._room_R1 = torch.zeros((count, 1), dtype=torch.int64, device=rows.device)  # tokens after the next one

    def admit(self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None) -> None:
        """Start with no word begun."""
        room_A = torch.tensor([query.limit - 1 for query in queries], device=slots.device)
        self._state_R.unflatten(0, (-1, self._beams))[slots] = AFTER_OTHER
        self._room_R1.view(-1, self._beams)[slots] = room_A.unsqueeze(1)

    def forbid(self, scores_RV: Float[Tensor, "R V"]) -> None:
        """Forbid what completes a forbidden word, or leaves too little room."""
        scores_RV.masked_fill_(self._left_SV.index_select(0, self._state_R) > self._room_R1, -math.inf)

    def follow(self, rows_R: Int[Tensor, "R"] | None, last_R: Int[Tensor, "R"]) -> None:
        """Go to the next step."""
        state_R = self._state_R if rows_R is None else self._state_R.index_select(0, rows_R)
        self._state_R.copy_(self._next_N.index_select(0, state_R * self._size + last_R))
        self._room_R1.sub_(1)


def _in_states(rule: Words, state_BK: Int[Tensor, "1 K"], limit: int) -> Words:
    """Return the rule of one sentence with rows in these states, and this limit."""
    met_BKC = rule.met_BKC.expand(-1, state_BK.shape[1], -1)
    return replace(rule, state_BK=state_BK, met_BKC=met_BKC, limit_BK=torch.full_like(state_BK, limit))


def _left_after_tokens(automaton: WordAutomaton, vocab_size: int, device: torch.device) -> Int[Tensor, "S V"]:
    """Return the room that each token needs after each state; more than there ever is where it may not follow."""
    states, reached_S = len(automaton.root_S), automaton.to_end_S < UNREACHED
    every_1S = torch.arange(states, device=device).unsqueeze(0)
    most = int(automaton.to_end_S[reached_S].max())
    left_SV = torch.zeros((states, vocab_size), dtype=torch.int32, device=device)
    for room in range(most + 1):
        scores_SV = torch.zeros((states, vocab_size), device=device)
        rule = _in_states(Words.of([automaton], [UNREACHED], device), every_1S, room + 1)
        rule.forbid(scores_SV, every_1S.T)
        left_SV += scores_SV == -math.inf
    return left_SV.masked_fill_(left_SV > most, UNREACHED)


def _states_after_tokens(automaton: WordAutomaton, vocab_size: int, device: torch.device) -> Int[Tensor, "S V"]:
    """Return the state to which each token leads from each state."""
    rule, token_1V = Words.of([automaton], [UNREACHED], device), torch.arange(vocab_size, device=device).unsqueeze(0)
    after = [
        _in_states(rule, torch.full_like(token_1V, state), UNREACHED).follow(None, token_1V)
        for state in range(len(automaton.root_S))
    ]
    return torch.cat([one.state_BK.int() for one in after])
