"""The automata of a batch as tensors, joined: the number of a state is unique in the batch.

What is computed from them has fixed shapes and asks nothing of the device, so that it can be recorded.

Shape letter of this file: N  what may follow a row: nothing, a piece of kind 0 to 4 without an edge, each edge
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.tokenize.tokenizer import END, PAD
from heedful.decode.constraints.words.automaton import UNREACHED, WordAutomaton
from heedful.decode.constraints.words.spelling import KINDS, REST, Spelling

_OWN: Final = 1  # columns before those of the kinds: nothing follows
_PLAIN: Final = _OWN + REST + 1  # columns before those of edges
_LETTER_FIRST: Final = 2  # kind of the first pieces that begin with a letter


class Ahead(NamedTuple):
    """What is left to rows now and after every token; more than any room after one that may not follow."""

    missing_R: Bool[Tensor, "R"]  # whether a required word is neither met nor pending
    unended_R: Bool[Tensor, "R"]  # whether a row may not end, for that or because a letter must follow
    now_R: Int[Tensor, "R"]
    kinds_RX: Int[Tensor, "R X"]  # after a piece of each kind that has no edge
    edges_RF: Int[Tensor, "R F"]
    tokens_RF: Int[Tensor, "R F"]  # of the edges


@dataclass(frozen=True, eq=False)
class Kinds:
    """What is known of the pieces of a vocabulary by their kinds, on a device: see `Spelling`."""

    kind_V: Int[Tensor, "V"]
    closing_N: Bool[Tensor, "N"]  # whether what follows without an edge ends the words that are pending
    stopped_X: Bool[Tensor, "X"]  # whether pieces of kind 0 to 4 may not follow where a letter must
    empty: int  # what is left after a piece without text: 0 if there is none, and markers alone are of its kind

    @classmethod
    def of(cls, spelling: Spelling, device: torch.device) -> "Kinds":
        """Find what is known of a vocabulary."""
        kind_X = np.arange(REST + 1)
        arrays = spelling.kind_V, np.append([False] * _OWN, kind_X < _LETTER_FIRST), _stops(kind_X)
        kind_V, closing_N, stopped_X = (torch.from_numpy(array).to(device) for array in arrays)
        return cls(kind_V, closing_N, stopped_X, UNREACHED if spelling.has_empty else 0)


@dataclass(frozen=True, eq=False)
class Tables:
    """States and edges of all automata of a batch, on a device. After the last edge comes one that fills up."""

    kinds: Kinds
    onward_SN: Int[Tensor, "S N"]  # the state itself, and the one after a piece of each kind without an edge
    held_S: Bool[Tensor, "S"]
    pending_SC: Bool[Tensor, "S C"]
    required_SC: Bool[Tensor, "S C"]  # False where an automaton has fewer words than another
    lost_SC: Int[Tensor, "S C"]  # `to_word` less `cost`
    kept_SC: Int[Tensor, "S C"]  # `keeping` less `cost`
    cost_SC: Int[Tensor, "S C"]
    to_end_S: Int[Tensor, "S"]
    close_S: Int[Tensor, "S"]
    base_SC: Int[Tensor, "S C"]  # tokens of each word at the start
    begun_SC: Int[Tensor, "S C"]  # those of them that the text ends with
    edges_SF: Int[Tensor, "S F"]  # the edges of each state
    key_E: Int[Tensor, "E"]  # state times vocabulary plus token, ascending
    token_E: Int[Tensor, "E"]
    next_E: Int[Tensor, "E"]
    done_EC: Bool[Tensor, "E C"]
    closes_E: Bool[Tensor, "E"]  # whether words that are pending end before the piece
    stops_E: Bool[Tensor, "E"]  # whether it may not follow where a letter must
    banned_E: Bool[Tensor, "E"]

    @classmethod
    def join(cls, automata: Sequence[WordAutomaton], device: torch.device) -> "Tables":
        """Join automata over one vocabulary."""
        spelling, words = automata[0].spelling, max(1, *(len(one.required) for one in automata))
        fan = max(1, *(widest(one) for one in automata))
        parts, states, edges = [], 0, 0
        for one in automata:
            parts.append(arrays_of(one, words, fan, states, edges))
            states, edges = states + len(one.root_S), edges + len(one.token_E)
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        joined["edges_SF"][joined["edges_SF"] < 0] = edges
        for name, value in FILL.items():
            shape = (1, *joined[name].shape[1:])
            joined[name] = np.concatenate([joined[name], np.full(shape, value, joined[name].dtype)])
        tensors = {name: torch.from_numpy(array).to(device) for name, array in joined.items()}
        return cls(Kinds.of(spelling, device), **tensors)

    def look_ahead(self, state_R: Int[Tensor, "R"], met_RC: Bool[Tensor, "R C"]) -> Ahead:
        """Return the number of tokens that are enough for what must still follow, after each token."""
        edges_RF, held_R1 = self.edges_SF[state_R], self.held_S[state_R].unsqueeze(1)
        next_RN = torch.cat([self.onward_SN[state_R][:, :_PLAIN], self.next_E[edges_RF]], dim=1)
        closes_RN = torch.cat([self.kinds.closing_N.expand(len(state_R), -1), self.closes_E[edges_RF]], dim=1)
        closed_RC = met_RC | self.pending_SC[state_R]
        met_RNC = torch.where(closes_RN.unsqueeze(2), closed_RC.unsqueeze(1), met_RC.unsqueeze(1))
        met_RNC[:, _PLAIN:] |= self.done_EC[edges_RF]
        missing_RN, left_RN = self._left(next_RN, met_RNC)
        kinds_RX = left_RN[:, _OWN:_PLAIN].masked_fill(held_R1 & self.kinds.stopped_X, UNREACHED)
        stays_RF = (held_R1 & self.stops_E[edges_RF]) | self.banned_E[edges_RF]
        return Ahead(
            missing_RN[:, 0],
            missing_RN[:, 0] | held_R1.squeeze(1),
            left_RN[:, 0],
            F.pad(kinds_RX, (0, 1), value=self.kinds.empty),
            left_RN[:, _PLAIN:].masked_fill(stays_RF, UNREACHED),
            self.token_E[edges_RF],
        )

    def _left(self, state_X: Tensor, met_XC: Tensor) -> tuple[Tensor, Tensor]:
        """Return whether any word is missing, and the number of tokens that are enough for what must still follow."""
        pending_XC, cost_XC = self.pending_SC[state_X], self.cost_SC[state_X]
        missing_XC = self.required_SC[state_X] & ~(met_XC | pending_XC)
        pending_X = (cost_XC * (pending_XC & ~met_XC)).sum(-1)
        kept_X, lost_X = (
            table_SC[state_X].masked_fill(~missing_XC, UNREACHED).amin(-1) for table_SC in (self.kept_SC, self.lost_SC)
        )
        words_X = kept_X.minimum(lost_X + pending_X) + (cost_XC * missing_XC).sum(-1) + self.close_S[state_X]
        any_X = missing_XC.any(-1)
        return any_X, torch.where(any_X, words_X, self.to_end_S[state_X])

    def unwritten(self, state_X: Tensor, met_XC: Tensor) -> Tensor:
        """Return the number of tokens of required words that are left.

        The shortest way to a place where a word may begin does not count.
        """
        missing_XC = self.required_SC[state_X] & ~(met_XC | self.pending_SC[state_X])
        words_X = (self.base_SC[state_X] * missing_XC).sum(-1)
        return words_X - (self.begun_SC[state_X] * missing_XC).amax(-1)

    def read(self, state_X: Tensor, met_XC: Tensor, last_X: Tensor) -> tuple[Tensor, Tensor]:
        """Return states and met words after one more token per row."""
        size = len(self.kinds.kind_V)
        last_X = last_X.clamp(max=size - 1)  # impossible rows may have logits that are no token's
        kind_X = self.kinds.kind_V[last_X]
        closes_X = (kind_X < _LETTER_FIRST) | (last_X == END)
        met_XC = met_XC | (self.pending_SC[state_X] & closes_X.unsqueeze(-1))
        key_X = state_X * size + last_X
        edge_X = torch.searchsorted(self.key_E, key_X)
        found_X = self.key_E[edge_X] == key_X
        next_X = torch.where(found_X, self.next_E[edge_X], self.onward_SN[state_X, _OWN + kind_X])
        return next_X, met_XC | (self.done_EC[edge_X] & found_X.unsqueeze(-1))


# --- arrays -----------------------------------------------------------------------------------------------------------

FILL: Final = {  # an edge that fills up
    "key_E": np.iinfo(np.int64).max, "token_E": PAD, "next_E": 0, "done_EC": False, "closes_E": False, "stops_E": False,
    "banned_E": True,
}  # fmt: skip


def widest(one: WordAutomaton) -> int:
    """Return the greatest number of edges of a state."""
    return int(np.bincount(one.from_E, minlength=1).max())


def arrays_of(
    one: WordAutomaton, words: int, fan: int, first_state: int = 0, first_edge: int = 0
) -> dict[str, NDArray[Any]]:
    """Return the tables of an automaton, with room for these numbers of words and of edges of a state.

    States and edges have numbers from the first ones on; -1 is an edge that there is not.
    """
    states, size = len(one.root_S), one.spelling.size
    other_S, letter_S = np.zeros(states, dtype=np.int64), np.ones(states, dtype=np.int64)  # the roots
    kind_E = one.spelling.kind_V[one.token_E]

    def wide(table: NDArray[Any], rows: int = states) -> NDArray[Any]:
        padded = np.zeros((rows, words), table.dtype)
        padded[:, : len(one.required)] = table
        return padded

    onward = [np.arange(states), other_S, letter_S, other_S, letter_S, one.root_S, one.root_S]
    assert len(onward) == _OWN + KINDS
    return {
        "onward_SN": np.stack(onward, axis=1) + first_state,
        "held_S": one.held_S,
        "pending_SC": wide(one.pending_SC),
        "required_SC": wide(np.ones(len(one.required), dtype=np.bool_)),
        "lost_SC": wide(one.to_word_SC - one.cost_C),
        "kept_SC": wide(one.keeping_SC - one.cost_C),
        "cost_SC": wide(one.cost_C),
        "to_end_S": one.to_end_S,
        "close_S": np.full(states, one.close),
        "base_SC": wide(one.to_word_SC[0]),
        "begun_SC": wide(np.maximum(0, one.to_word_SC[:1] - one.to_word_SC)),
        "edges_SF": _edges_by_state(one, fan, first_edge),
        "key_E": (one.from_E + first_state) * size + one.token_E,
        "token_E": one.token_E,
        "next_E": one.next_E + first_state,
        "done_EC": wide(one.done_EC, len(one.done_EC)),
        "closes_E": kind_E < _LETTER_FIRST,
        "stops_E": _stops(kind_E),
        "banned_E": one.banned_E,
    }


def _edges_by_state(one: WordAutomaton, fan: int, first_edge: int) -> NDArray[np.int64]:
    """Return the numbers of the edges of each state, and -1 after them."""
    counts_S = np.bincount(one.from_E, minlength=len(one.root_S))
    edges_SF, number_E = np.full((len(counts_S), fan), -1), np.arange(len(one.from_E))
    edges_SF[one.from_E, number_E - np.repeat(np.cumsum(counts_S) - counts_S, counts_S)] = number_E + first_edge
    return edges_SF


def _stops(kind_X: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which kinds of pieces may not follow where a letter must."""
    return (kind_X < _LETTER_FIRST) | (kind_X == REST)
