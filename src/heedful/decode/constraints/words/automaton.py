"""An automaton that reads a target piece by piece, and knows which words it contains and how many tokens are left.

A word that ends with a letter ends only where no letter follows; until then it is `pending`. With to_word and to_end as
in `distances.py`:

    cost(w)         the greatest keeping(s, w) of all states s in which a word has just ended
    close           the greatest to_end(s) of these
    left(s, met)    over the words w that are neither met nor pending, the lesser of
                    min_w (keeping(s, w) - cost(w)) + sum_w cost(w) + close
                    min_w (to_word(s, w) - cost(w)) + sum_w cost(w) + close + the cost of the words that are pending
                    to_end(s) if there are none

Some token always makes `left` smaller, so a target that has room for what is left can be completed.

Shape letters of this folder: S  states    E  edges    C  required words    F  edges of one state    X  any
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heedful.decode.constraints.words.distances import UNREACHED, Bools, Ints, Moves
from heedful.decode.constraints.words.spelling import REST, Spelling
from heedful.decode.constraints.words.states import AFTER_OTHER, StateGraph


@dataclass(frozen=True, eq=False)
class WordAutomaton:
    """The automaton of required and forbidden words in a vocabulary. States 0 and 1 are its roots."""

    spelling: Spelling
    required: tuple[str, ...]
    words: int  # number of required and forbidden words
    root_S: Ints
    pending_SC: Bools
    held_S: Bools  # whether a forbidden word is pending: a letter must follow
    to_word_SC: Ints
    keeping_SC: Ints
    to_end_S: Ints
    cost_C: Ints
    close: int
    from_E: Ints
    token_E: Ints
    next_E: Ints
    done_EC: Bools
    banned_E: Bools  # whether a forbidden word ends in the piece

    @property
    def left(self) -> int:
        """The number of tokens that are enough for all required words and `</s>`."""
        return self.left_after(())

    def left_after(self, tokens: Sequence[int]) -> int:
        """Return the number of tokens that are enough after these, whatever they contain."""
        state, met_C, _ = self._read(tokens)
        missing_C = ~(met_C | self.pending_SC[state])
        if not missing_C.any():
            return int(self.to_end_S[state])
        kept, lost = ((table[state] - self.cost_C)[missing_C].min() for table in (self.keeping_SC, self.to_word_SC))
        pending = self.cost_C[self.pending_SC[state] & ~met_C].sum()
        return int(min(kept, lost + pending) + self.cost_C[missing_C].sum() + self.close)

    def accepts(self, tokens: Sequence[int]) -> bool:
        """Whether a target contains all required words, and no forbidden one."""
        state, met_C, sound = self._read(tokens)
        return sound and not self.held_S[state] and bool((met_C | self.pending_SC[state]).all())

    def _read(self, tokens: Sequence[int]) -> tuple[int, Bools, bool]:
        """Return the state after some tokens, the words that they contain, and whether none of these is forbidden."""
        state, met_C, sound = AFTER_OTHER, np.zeros(len(self.required), dtype=np.bool_), True
        for token in tokens:
            kind = self.spelling.shapes[token].kind
            if kind < 2:
                met_C = met_C | self.pending_SC[state]
            edge = self._edges.get((state, token))
            sound = (
                sound
                and not (self.held_S[state] and kind not in (2, 3))
                and not (edge is not None and self.banned_E[edge])
            )
            if edge is None:
                state = kind % 2 if kind < REST else int(self.root_S[state])
            else:
                state, met_C = int(self.next_E[edge]), met_C | self.done_EC[edge]
        return state, met_C, sound

    @cached_property
    def _edges(self) -> dict[tuple[int, int], int]:
        pairs = zip(self.from_E.tolist(), self.token_E.tolist(), strict=True)
        return {pair: number for number, pair in enumerate(pairs)}

    @property
    def possible(self) -> bool:
        """Whether the words can be written."""
        return self.left < UNREACHED


def build_automaton(spelling: Spelling, required: Sequence[str], forbidden: Sequence[str]) -> WordAutomaton:
    """Build the automaton of words, given as texts of the vocabulary have them."""
    graph, count = StateGraph(spelling, [*required, *forbidden]), len(required)
    pending = [graph.pending(state) for state in graph.states]
    held_S = np.array([any(word >= count for word in words) for words in pending])
    pending_SC = _table(pending, count) & ~held_S[:, None]
    edges = [(number, some[token]) for number, some in enumerate(graph.edges) for token in sorted(some)]
    moves = Moves.of(graph, required, held_S, pending_SC)
    (to_word_SC, keeping_SC), to_end_S = moves.to_words(), moves.to_end()
    after_S = pending_SC.any(1)
    after_S[[edge.target for _, edge in edges if edge.done]] = True
    after_SC = after_S[:, None] & ~pending_SC & (keeping_SC < UNREACHED)
    return WordAutomaton(
        spelling,
        tuple(required),
        count + len(forbidden),
        root_S=np.array([int(state.after_letter) for state in graph.states]),
        pending_SC=pending_SC,
        held_S=held_S,
        to_word_SC=to_word_SC,
        keeping_SC=keeping_SC,
        to_end_S=to_end_S,
        cost_C=np.maximum(np.where(after_SC, keeping_SC, 0).max(0), keeping_SC[AFTER_OTHER]),
        close=int(to_end_S[after_S].max(initial=1)),
        from_E=np.array([number for number, _ in edges], dtype=np.int64),
        token_E=np.array([edge.token for _, edge in edges], dtype=np.int64),
        next_E=np.array([edge.target for _, edge in edges], dtype=np.int64),
        done_EC=_table([edge.done for _, edge in edges], count),
        banned_E=np.array([any(word >= count for word in edge.done) for _, edge in edges], dtype=np.bool_),
    )


def _table(words: Sequence[set[int] | frozenset[int]], count: int) -> Bools:
    """Return which of the required words each set has; forbidden ones have greater numbers."""
    table = np.zeros((len(words), count), dtype=np.bool_)
    for row, some in enumerate(words):
        table[row, [word for word in some if word < count]] = True
    return table
