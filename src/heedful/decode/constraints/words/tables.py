"""The automata of a batch as tensors, joined: the number of a state is unique in the batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.tokenize.tokenizer import PAD
from heedful.decode.constraints.words.automaton import WordAutomaton


@dataclass(frozen=True, eq=False)
class Tables:
    """States and edges of all automata of a batch, on a device. After the last edge comes one that fills up."""

    kind_V: Int[Tensor, "V"]  # of pieces: see `Spelling`
    has_empty: bool  # whether a piece has no text
    root_S: Int[Tensor, "S"]  # the root with the same last character
    roots_S2: Int[Tensor, "S 2"]  # the roots of its automaton
    held_S: Bool[Tensor, "S"]
    pending_SC: Bool[Tensor, "S C"]
    required_SC: Bool[Tensor, "S C"]  # False where an automaton has fewer words than another
    to_word_SC: Int[Tensor, "S C"]
    keeping_SC: Int[Tensor, "S C"]
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
    banned_E: Bool[Tensor, "E"]

    @classmethod
    def join(cls, automata: Sequence[WordAutomaton], device: torch.device) -> "Tables":
        """Join automata over one vocabulary."""
        spelling, words = automata[0].spelling, max(1, *(len(one.required) for one in automata))
        bases = first_states(automata)
        parts = [_numbered(one, base, words) for one, base in zip(automata, bases, strict=True)]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        from_E = joined.pop("from_E")
        counts_S = np.bincount(from_E, minlength=len(joined["root_S"]))
        edges_SF = np.full((len(counts_S), max(1, counts_S.max())), len(from_E))
        number_E = np.arange(len(from_E))
        edges_SF[from_E, number_E - np.repeat(np.cumsum(counts_S) - counts_S, counts_S)] = number_E
        fill = {"token_E": PAD, "next_E": 0, "done_EC": False, "banned_E": True}
        for name, value in fill.items():
            shape = (1, *joined[name].shape[1:])
            joined[name] = np.concatenate([joined[name], np.full(shape, value, joined[name].dtype)])
        joined["key_E"] = np.append(from_E * spelling.size + joined["token_E"][:-1], np.iinfo(np.int64).max)
        joined |= {"edges_SF": edges_SF, "kind_V": spelling.kind_V}
        tensors = {name: torch.from_numpy(array).to(device) for name, array in joined.items()}
        return cls(has_empty=spelling.has_empty, **tensors)


def first_states(automata: Sequence[WordAutomaton]) -> list[int]:
    """Return the number of each automaton's first state in a batch."""
    sizes = [len(one.root_S) for one in automata]
    return [sum(sizes[:place]) for place in range(len(sizes))]


def _numbered(one: WordAutomaton, base: int, words: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of an automaton, with states that are numbered from `base`."""
    states, missing = len(one.root_S), words - len(one.required)
    required_C = np.arange(words) < len(one.required)

    def wide(table: NDArray[Any]) -> NDArray[Any]:
        return np.pad(table, ((0, 0), (0, missing)))

    return {
        "root_S": one.root_S + base,
        "roots_S2": np.tile([base, base + 1], (states, 1)),
        "held_S": one.held_S,
        "pending_SC": wide(one.pending_SC),
        "required_SC": np.tile(required_C, (states, 1)),
        "to_word_SC": wide(one.to_word_SC),
        "keeping_SC": wide(one.keeping_SC),
        "cost_SC": np.tile(wide(one.cost_C[None]), (states, 1)),
        "to_end_S": one.to_end_S,
        "close_S": np.full(states, one.close),
        "base_SC": np.tile(wide(one.to_word_SC[:1]), (states, 1)),
        "begun_SC": wide(np.maximum(0, one.to_word_SC[:1] - one.to_word_SC)),
        "from_E": one.from_E + base,
        "token_E": one.token_E,
        "next_E": one.next_E + base,
        "done_EC": wide(one.done_EC),
        "banned_E": one.banned_E,
    }
