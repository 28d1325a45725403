"""An automaton that reads a target piece by piece, and knows which words it contains and how many tokens are left.

A word that ends with a letter ends only where no letter follows; until then it is `pending`.

    to_word(s, w)   tokens from s to the end of w: to a place where it may begin, and then in its usual pieces
    keeping(s, w)   the same, if the words that are pending in s must end first
    to_end(s)       tokens from s to `</s>`, which is one of them
    cost(w)         the greatest keeping(s, w) of all states s in which a word has just ended
    close           the greatest to_end(s) of these
    left(s, met)    over the words w that are neither met nor pending, the lesser of
                    min_w (keeping(s, w) - cost(w)) + sum_w cost(w) + close
                    min_w (to_word(s, w) - cost(w)) + sum_w cost(w) + close + the cost of the words that are pending
                    to_end(s) if there are none

Moves that a forbidden word rules out do not count. Some token always makes `left` smaller, so a target that has room
for what is left can be completed.

Shape letters of this folder: S  states    E  edges    C  required words    F  edges of one state    X  any
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.decode.constraints.words.spelling import REST, Spelling
from heedful.decode.constraints.words.states import AFTER_OTHER, Edge, State, StateGraph

UNREACHED: Final = 1 << 20  # tokens: more than any limit

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class _UsualPieces:
    """Which edges belong to the usual spellings of required words."""

    def __init__(self, graph: StateGraph, required: Sequence[str]) -> None:
        self._graph = graph
        self._of: dict[int, list[tuple[int, int, int]]] = defaultdict(list)  # by piece: word, its bytes before, after
        for number, word in enumerate(required):
            for pieces in graph.spelling.usual(word):
                self._add(number, graph.words[number], pieces)

    def _add(self, number: int, word: bytes, pieces: Sequence[int]) -> None:
        texts = [self._graph.spelling.texts[piece] for piece in pieces]
        read = -b"".join(texts).find(word)
        for piece, text in zip(pieces, texts, strict=True):
            if read < len(word) and read + len(text) > 0:
                self._of[piece].append((number, max(0, read), min(read + len(text), len(word))))
            read += len(text)

    def words(self, state: State, edge: Edge) -> list[int]:
        """Return the words that an edge continues as usual."""
        paths, nodes = self._graph.trie.paths, self._graph.states[edge.target].nodes
        return [
            word
            for word, before, after in self._of.get(edge.token, ())
            if (not before or paths[word][before] in state.nodes) and (paths[word][after] in nodes or word in edge.done)
        ]


@dataclass(frozen=True, eq=False)
class Moves:
    """All allowed moves between states, those without an edge too, ordered by the state that they leave."""

    starts_S: Ints  # where the moves of each state begin
    from_X: Ints
    next_X: Ints
    closes_X: Bools  # whether a word that was pending ends there
    done_XC: Bools
    usual_XC: Bools  # whether a move belongs to a usual spelling of a word, or has no edge
    held_S: Bools
    pending_SC: Bools

    @classmethod
    def of(cls, graph: StateGraph, required: Sequence[str], held_S: Bools, pending_SC: Bools) -> "Moves":
        """Find the moves; from states that are held, only pieces that begin with a letter may follow."""
        count, usual = len(required), _UsualPieces(graph, required)
        moves: list[tuple[int, int, bool, list[int], list[int]]] = []
        starts = []
        for number, state in enumerate(graph.states):
            starts.append(len(moves))
            moves.append((number, number, False, [], []))  # never usable: so that no state is without a move
            left = graph.spelling.counts.copy()
            for token, edge in graph.edges[number].items():
                kind = graph.spelling.shapes[token].kind
                left[kind] -= 1
                if any(word >= count for word in edge.done) or (held_S[number] and kind in (0, 1, REST)):
                    continue
                moves.append((number, edge.target, kind < 2, sorted(edge.done), usual.words(state, edge)))
            for kind in range(2 * int(held_S[number]), 4):
                if left[kind] > 0:
                    moves.append((number, kind % 2, kind < 2, [], list(range(count))))
        done_XC, usual_XC = (np.zeros((len(moves), count), dtype=np.bool_) for _ in range(2))
        for place, (_, _, _, done, words) in enumerate(moves):
            done_XC[place, done] = True
            usual_XC[place, words] = True
        from_X, next_X, closes_X = (np.array([move[part] for move in moves]) for part in range(3))
        return cls(np.array(starts), from_X, next_X, closes_X, done_XC, usual_XC, held_S, pending_SC)

    def to_end(self) -> Ints:
        """Return the number of tokens from each state to `</s>`."""
        usable_X = np.ones(len(self.from_X), dtype=np.bool_)
        usable_X[self.starts_S] = False
        found = first = np.where(self.held_S, UNREACHED, 1)
        while True:
            steps_X = np.where(usable_X, 1 + found[self.next_X], UNREACHED)
            nearer = np.minimum(first, np.minimum.reduceat(steps_X, self.starts_S))
            if (nearer == found).all():
                return found
            found = nearer

    def to_words(self) -> tuple[Ints, Ints]:
        """Return the number of tokens from each state to the end of each required word, and the same keeping others."""
        arrives_XC = self.pending_SC[self.next_X] | self.done_XC
        found = np.full(self.pending_SC.shape, UNREACHED)
        while found.size:
            steps_XC = np.where(arrives_XC, 1, np.minimum(1 + found[self.next_X], UNREACHED))
            steps_XC[~self.usual_XC] = UNREACHED
            nearer = np.minimum.reduceat(steps_XC, self.starts_S)
            if (nearer == found).all():
                keeping = np.minimum.reduceat(np.where(self.closes_X[:, None], steps_XC, UNREACHED), self.starts_S)
                return found, np.where(self.pending_SC.any(1, keepdims=True), keeping, found)
            found = nearer
        return found, found


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
