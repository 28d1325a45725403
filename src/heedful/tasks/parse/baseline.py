"""The line that a parser has to beat: right-branching trees with usual labels.

    (S you (VP see (VP old (NP dogs barking))))

Every constituent is a word and a constituent of all words after it, down to two words. Marks without a letter or a
digit begin none. Labels are the most frequent ones in training: those over whole sentences at the top, and below it
those over as many words. It is counted once per run, from the same training trees, in seconds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from heedful.base.trees import TOP, UNTAGGED, Leaf, Tree, closes, opens
from heedful.data.collate import rows_by_store
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.tasks.shared.line import most_frequent, sample_rows

_MOST_TREES: Final = 20_000  # of training: more of them are sampled at equal distances
_LONG: Final = 10  # words: constituents of more have the same label
_LONGEST: Final = 150  # words of a constituent: deeper trees would exhaust Python's stack

Span = tuple[str, int, int]  # a label, the first word, and the word after the last


class RightBranching:
    """Trees whose every constituent branches at its first word."""

    def __init__(self, trees: Iterable[Sequence[Span]]) -> None:
        tops, inner = Counter[tuple[str, ...]](), defaultdict[int, Counter[str]](Counter)
        for spans in trees:
            words = max(end for _, _, end in spans)
            tops[tuple(label for label, start, end in spans if end - start == words)] += 1
            for label, start, end in spans:
                if end - start < words:
                    inner[min(end - start, _LONG)][label] += 1
        self._top = most_frequent(tops) if tops else (TOP,)
        self._usual = most_frequent(sum(inner.values(), Counter[str]())) if inner else self._top[-1]
        self._inner = {words: most_frequent(labels) for words, labels in inner.items()}

    def tree(self, words: Sequence[str]) -> Tree:
        """Return the tree of a sentence."""
        leaves, below = [Leaf(UNTAGGED, word) for word in words], list[Tree | Leaf]()
        for place in reversed(range(len(words))):
            size = len(words) - place
            below.insert(0, leaves[place])
            if place and 1 < size <= _LONGEST and any(map(str.isalnum, words[place])):
                below = [Tree(self._inner.get(min(size, _LONG), self._usual), tuple(below))]
        for label in reversed(self._top):
            below = [Tree(label, tuple(below))]
        (whole,) = below
        assert isinstance(whole, Tree)
        return whole


def right_branching(train: Sequence[TokenStore], target: Tokenizer) -> tuple[RightBranching, str]:
    """Count the labels of training trees, or of a sample; return what makes trees, and of which trees it is."""
    rows, sample = sample_rows(sum(map(len, train)), _MOST_TREES, "tree")
    names = target.pieces(range(target.size))
    read = (store.sentence("target", row) for store, _, own in rows_by_store(train, rows) for row in own.tolist())
    return RightBranching(_spans(names[token] for token in tokens) for tokens in read), sample


def _spans(sequence: Iterable[str]) -> list[Span]:
    """Return the constituents of a tree that is written as a sequence, outer ones first."""
    found: list[Span] = []
    opened: list[int] = []  # numbers of the constituents that are not closed yet
    place = 0
    for token in sequence:
        if opens(token):
            opened.append(len(found))
            found.append((token[1:], place, place))
        elif closes(token) and opened:
            number = opened.pop()
            found[number] = (*found[number][:2], place)
        else:
            place += 1
    return found
