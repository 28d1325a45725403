"""The states of an automaton that reads pieces, and the edges between them.

A state is the beginnings of words that the end of the text may be, as in Aho and Corasick 1975, together with whether
the text ends with a letter. A piece leads from state to state by the characters of its text, so all spellings of a word
are the same to it. Most pieces lead to one of two roots, by their last character alone; only the others have edges.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from heedful.decode.constraints.words.spelling import REST, Spelling, is_letter

_START: Final = 0  # node of the trie
AFTER_OTHER, AFTER_LETTER = 0, 1  # the numbers of the roots


@dataclass(frozen=True)
class State:
    """What is known of a text by its end."""

    nodes: frozenset[int]  # of the trie
    after_letter: bool


@dataclass(frozen=True)
class Edge:
    """A piece that leads to another state than its last character says."""

    token: int
    target: int
    done: frozenset[int]  # words that end in the piece; with it only where a word does not end with a letter


class Trie:
    """The beginnings of all words, in bytes."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self.children: list[dict[int, int]] = [{}]
        self.ends: list[set[int]] = [set()]  # numbers of the words that end at a node
        self.paths = [list(self._add(number, word)) for number, word in enumerate(words)]  # nodes by depth

    def _add(self, number: int, word: bytes) -> Iterator[int]:
        node = _START
        yield node
        for byte in word:
            if byte not in self.children[node]:
                self.children[node][byte] = len(self.children)
                self.children.append({})
                self.ends.append(set())
            node = self.children[node][byte]
            yield node
        self.ends[node].add(number)

    def below(self, node: int) -> Iterator[tuple[bytes, bool]]:
        """Yield the texts from a node to all nodes below it, and whether a word ends there."""
        waiting = [(b"", node)]
        while waiting:
            text, at = waiting.pop()
            for byte, child in self.children[at].items():
                longer = text + bytes((byte,))
                yield longer, bool(self.ends[child])
                waiting.append((longer, child))

    def step(self, nodes: Sequence[int], byte: int) -> list[int]:
        """Return the nodes that a byte leads to."""
        found = (self.children[node].get(byte) for node in nodes)
        return [node for node in found if node is not None]


class StateGraph:
    """All states that some pieces lead to, and their edges."""

    def __init__(self, spelling: Spelling, words: Sequence[str]) -> None:
        self.spelling = spelling
        self.words = [word.encode() for word in words]
        self.trie = Trie(self.words)
        self._waits = [is_letter(word[-1]) for word in words]  # whether a word ends only where no letter follows
        self.states = [State(frozenset(), after_letter=False), State(frozenset(), after_letter=True)]
        self._numbers = {state: number for number, state in enumerate(self.states)}
        found: list[dict[int, Edge]] = []
        while len(found) < len(self.states):
            found.append({edge.token: edge for edge in self._edges(self.states[len(found)])})
        # where a piece continues no word, it starts one as it does from the root
        self.edges = [found[state.after_letter] | own for state, own in zip(self.states, found, strict=True)]

    def pending(self, state: State) -> set[int]:
        """Return the words that end with the text if no letter follows."""
        return {word for node in state.nodes for word in self.trie.ends[node] if self._waits[word]}

    def _edges(self, state: State) -> list[Edge]:
        found = []
        for token in sorted(self._continuing(state.nodes) if state.nodes else self._starting()):
            target, done = self._read(state, token)
            if state.nodes or target.nodes or done:
                found.append(Edge(token, self._number(target), done))
        return found

    def _starting(self) -> set[int]:
        """Return the pieces in which a word may begin."""
        index, found = self.spelling.index, set[int]()
        for text, ends in self.trie.below(_START):
            found.update(index.whole.get(text, ()), index.tails.get(text, ()))
            if ends:
                found.update(index.heads.get(text, ()), index.inner.get(text, ()))
        return found

    def _continuing(self, nodes: frozenset[int]) -> set[int]:
        """Return the pieces that continue the beginnings of words."""
        index, found = self.spelling.index, set[int]()
        for node in nodes:
            for text, ends in self.trie.below(node):
                found.update(index.whole.get(text, ()))
                if ends:
                    found.update(index.heads.get(text, ()))
        return found

    def _read(self, state: State, token: int) -> tuple[State, frozenset[int]]:
        """Return the state after a piece, and the words that end in it; not those that end before it."""
        text, shape = self.spelling.texts[token], self.spelling.shapes[token]
        nodes, done = list(state.nodes), set[int]()
        for place, byte in enumerate(text):
            if place:
                boundary = place in shape.boundaries
            else:
                boundary = shape.kind != REST and not (state.after_letter and shape.begins)
            if place and boundary:
                done.update(word for node in nodes for word in self.trie.ends[node])
            nodes = self.trie.step([*nodes, _START] if boundary else nodes, byte)
            done.update(word for node in nodes for word in self.trie.ends[node] if not self._waits[word])
        after_letter = state.after_letter if shape.kind == REST else shape.ends
        return State(frozenset(nodes), after_letter), frozenset(done)

    def _number(self, state: State) -> int:
        if state not in self._numbers:
            self._numbers[state] = len(self.states)
            self.states.append(state)
        return self._numbers[state]
