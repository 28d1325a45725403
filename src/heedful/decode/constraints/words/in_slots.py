"""Required and forbidden words of a search: factories, and the rules in slots.

Forbidden words alone, the same for all sentences, are two tables over the states of their automaton and the vocabulary.
Where sentences require words, or differ in those that are forbidden, each slot has tables of its own, with room for the
automaton of any of its sentences. Their sizes are powers of two, so that searches with other words use the same buffers
and recordings.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.decode.constraints.protocol import ConstraintFactory, Sharing, SlotFactory, SlotRows
from heedful.decode.constraints.words.automaton import UNREACHED, WordAutomaton
from heedful.decode.constraints.words.constraint import Words, advancing, forbid_after, left_after, tighten
from heedful.decode.constraints.words.planner import check_room
from heedful.decode.constraints.words.spelling import KINDS, Spelling
from heedful.decode.constraints.words.states import AFTER_OTHER
from heedful.decode.constraints.words.tables import FILL, Kinds, Tables, arrays_of, widest
from heedful.decode.query import Query

_LARGEST_TABLE: Final = 2**22  # entries of a table


def words(automata: Mapping[int, WordAutomaton]) -> ConstraintFactory:
    """Require and forbid words; `automata` are those of the queries, by their numbers."""
    distinct = set(automata.values())
    if len(distinct) == 1 and all(map(ForbiddenWords.fits, distinct)):
        return ForbiddenWords(*distinct)
    factory = RequiredWords.of(automata)
    return factory if factory.fits else lambda queries, device: factory(queries, device)


@dataclass(frozen=True)
class ForbiddenWords:
    """A factory: no target contains the forbidden words of one automaton."""

    automaton: WordAutomaton

    @staticmethod
    def fits(automaton: WordAutomaton) -> bool:
        """Whether an automaton has forbidden words alone, and its tables are small."""
        return not automaton.required and len(automaton.root_S) * automaton.spelling.size <= _LARGEST_TABLE

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


_LARGEST_SLOT: Final = 2**16  # numbers in the tables of a slot
_WIDEST: Final = 2**10  # words times edges of a state: what a step computes for each row
_KEPT: Final = 1024  # automata as numbers


@dataclass(frozen=True)
class Sizes:
    """Room for an automaton."""

    states: int  # one more than there are, so that an edge that fills up is of none
    edges: int  # the last one fills up
    fan: int  # edges of a state
    words: int

    @classmethod
    def of(cls, automata: Sequence[WordAutomaton]) -> "Sizes":
        """Return the room that is enough for each of these automata."""
        return cls(
            _room(max(len(one.root_S) for one in automata) + 1, 32),
            _room(max(len(one.token_E) for one in automata) + 1, 256),
            _room(max(map(widest, automata)), 16),
            _room(max(len(one.required) for one in automata), 2),
        )

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each table, by the letters of its name."""
        sizes = {"S": self.states, "E": self.edges, "F": self.fan, "C": self.words, "N": 1 + KINDS}
        names = [table.name for table in fields(Tables) if table.name != "kinds"]
        return {name: tuple(sizes[letter] for letter in name.rpartition("_")[2]) for name in names}

    @property
    def numbers(self) -> int:
        """How many numbers all tables have."""
        return sum(map(math.prod, self.shapes.values()))


def _room(size: int, least: int) -> int:
    return max(least, 1 << (size - 1).bit_length())


@dataclass(frozen=True)
class RequiredWords:
    """A factory: targets contain their required words, and no forbidden ones.

    Those that have as much room are equal: a search in slots serves the sentences of all, one search after the other.
    """

    spelling: Spelling
    sizes: Sizes
    automata: Mapping[int, WordAutomaton] = field(compare=False, repr=False)  # by the numbers of their queries

    @classmethod
    def of(cls, automata: Mapping[int, WordAutomaton]) -> "RequiredWords":
        """Make the factory of queries with these automata, over one vocabulary."""
        distinct = list(dict.fromkeys(automata.values()))
        return cls(distinct[0].spelling, Sizes.of(distinct), dict(automata))

    @property
    def fits(self) -> bool:
        """Whether slots have room for the automata."""
        return self.sizes.numbers <= _LARGEST_SLOT and self.sizes.words * self.sizes.fan <= _WIDEST

    def find(self, queries: Sequence[Query]) -> list[WordAutomaton]:
        """Return the automata of queries, or refuse one whose target has too little room for its words."""
        found = [self.automata[query.number] for query in queries]
        for query, automaton in zip(queries, found, strict=True):
            check_room(query, automaton)
        return found

    def __call__(self, queries: Sequence[Query], device: torch.device) -> Words:
        """Make the constraint of a batch."""
        return Words.of(self.find(queries), [query.limit for query in queries], device)

    def in_slots(self, rows: SlotRows) -> "RequiredInSlots":
        """Make the constraint of slots."""
        return RequiredInSlots(self, rows)


class RequiredInSlots(Sharing):
    """The rule of `Words`, on buffers that never move."""

    requires = True

    def __init__(self, factory: RequiredWords, rows: SlotRows) -> None:
        self._factory, self._beams, sizes = factory, rows.beams, factory.sizes
        count, size, device = rows.slots * rows.beams, factory.spelling.size, rows.device
        anyone = next(iter(factory.automata.values()))
        alike = {name: torch.from_numpy(array) for name, array in arrays_of(anyone, sizes.words, sizes.fan).items()}
        tensors = {  # of which each slot has its own part
            name: torch.zeros((rows.slots * shape[0], *shape[1:]), dtype=alike[name].dtype, device=device)
            for name, shape in sizes.shapes.items()
        }
        self._tables = Tables(Kinds.of(factory.spelling, device), **tensors)
        # how much the numbers of an automaton grow from slot to slot: those of states, edges and keys
        growing = {"onward_SN": sizes.states, "next_E": sizes.states, "edges_SF": sizes.edges}
        scales_N = _filled(sizes, {**growing, "key_E": sizes.states * size})
        self._scales_N = torch.from_numpy(scales_N).to(device)
        self._kind_V = F.pad(self._tables.kinds.kind_V, (0, rows.vocab_size - size), value=KINDS)
        self.requires_B = torch.zeros(rows.slots, dtype=torch.bool, device=device)
        self._used_R, self._limit_R, self._most_R = torch.zeros((3, count), dtype=torch.int64, device=device).unbind()
        self._state_R = torch.arange(count, device=device) // rows.beams * sizes.states
        self._met_RC = torch.zeros((count, sizes.words), dtype=torch.bool, device=device)
        self._advancing_RF: Int[Tensor, "R F"] | None = None
        # rows of idle slots are in states that there are
        self._write(torch.arange(rows.slots, device=device), [anyone] * rows.slots)

    def renew(self, factory: SlotFactory) -> None:
        """Take the automata of sentences from this factory."""
        assert isinstance(factory, RequiredWords)
        self._factory = factory

    def admit(self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None) -> None:
        """Start with no word met, and with the automata of these queries."""
        automata = self._factory.find(queries)
        self._write(slots, automata)
        most = [query.limit if one.words else 2 * UNREACHED for query, one in zip(queries, automata, strict=True)]
        most_A1 = torch.tensor(most, device=slots.device).unsqueeze(1)
        self.requires_B[slots] = torch.tensor([bool(one.required) for one in automata], device=slots.device)
        self._by_slot(self._met_RC)[slots] = False
        self._by_slot(self._used_R)[slots] = 0
        self._by_slot(self._state_R)[slots] = (slots * self._factory.sizes.states).unsqueeze(1)
        for limit_R in (self._limit_R, self._most_R):
            self._by_slot(limit_R)[slots] = most_A1

    def _by_slot(self, x_R: Tensor) -> Tensor:
        return x_R.unflatten(0, (-1, self._beams))

    def _write(self, slots: Int[Tensor, "A"], automata: Sequence[WordAutomaton]) -> None:
        """Write the tables of automata to these slots, in one transfer."""
        sizes = self._factory.sizes
        packed_AN, first = torch.from_numpy(np.stack([_pack(one, sizes) for one in automata])).to(slots.device), 0
        packed_AN += slots.unsqueeze(1) * self._scales_N
        for name, shape in sizes.shapes.items():
            table, last = getattr(self._tables, name), first + math.prod(shape)
            table.view(-1, *shape)[slots] = packed_AN[:, first:last].reshape(-1, *shape).to(table.dtype)
            first = last

    def forbid(self, scores_RV: Float[Tensor, "R V"]) -> None:
        """Forbid what completes a forbidden word, or leaves too little room."""
        ahead = self._tables.look_ahead(self._state_R, self._met_RC)
        self._limit_R.copy_(tighten(ahead, self._limit_R, self._most_R, self._used_R, scores_RV))
        forbid_after(scores_RV, ahead, (self._limit_R - self._used_R - 1).unsqueeze(1), self._forbid_kinds)
        self._advancing_RF = advancing(ahead)

    def _forbid_kinds(self, scores_RV: Float[Tensor, "R V"], forbidden_RX: Bool[Tensor, "R X"]) -> None:
        """Forbid all pieces of some kinds, and then what is no piece."""
        forbidden_RX = torch.cat([forbidden_RX, forbidden_RX.any(1, keepdim=True)], dim=1)
        scores_RV.masked_fill_(forbidden_RX.index_select(1, self._kind_V), -math.inf)

    def follow(self, rows_R: Int[Tensor, "R"] | None, last_R: Int[Tensor, "R"]) -> None:
        """Go to the next step."""
        state_R, met_RC = self._state_R, self._met_RC
        if rows_R is not None:
            state_R, met_RC = state_R.index_select(0, rows_R), met_RC.index_select(0, rows_R)
            self._limit_R.copy_(self._limit_R.index_select(0, rows_R))
        state_R, met_RC = self._tables.read(state_R, met_RC, last_R)
        self._state_R.copy_(state_R)
        self._met_RC.copy_(met_RC)
        self._used_R.add_(1)

    def advancing(self) -> Int[Tensor, "R F"]:
        """Return tokens after which less is left to a row; `<pad>` fills up."""
        assert self._advancing_RF is not None, "`forbid` comes first"
        return self._advancing_RF

    def left(self, tokens_RC: Int[Tensor, "R C"]) -> Int[Tensor, "R C"]:
        """Return the number of tokens of required words that are left after each of these tokens."""
        return left_after(self._tables, self._state_R, self._met_RC, tokens_RC)


# --- tables of slots --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=_KEPT)
def _pack(automaton: WordAutomaton, sizes: Sizes) -> NDArray[np.int64]:
    """Return all tables of an automaton as numbers in a row, as slot 0 has them."""
    arrays, first = arrays_of(automaton, sizes.words, sizes.fan), 0
    arrays["edges_SF"][arrays["edges_SF"] < 0] = sizes.edges - 1
    packed = _filled(sizes, {**FILL, "key_E": sizes.states * automaton.spelling.size - 1})
    for name, shape in sizes.shapes.items():
        packed[first : first + arrays[name].size] = arrays[name].ravel()
        first += math.prod(shape)
    return packed


def _filled(sizes: Sizes, values: Mapping[str, int]) -> NDArray[np.int64]:
    """Return all tables as numbers in a row, each filled with one value, or 0."""
    counts = [math.prod(shape) for shape in sizes.shapes.values()]
    return np.repeat([values.get(name, 0) for name in sizes.shapes], counts)
