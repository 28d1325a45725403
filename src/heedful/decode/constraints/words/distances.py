"""How many tokens are enough to complete words, from any state of an automaton.

    to_word(s, w)   tokens from s to the end of w: to a place where it may begin, and then in its usual pieces
    keeping(s, w)   the same, if the words that are pending in s must end first
    to_end(s)       tokens from s to `</s>`, which is one of them

Moves that a forbidden word rules out do not count.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.decode.constraints.words.spelling import REST
from heedful.decode.constraints.words.states import Edge, State, StateGraph

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
