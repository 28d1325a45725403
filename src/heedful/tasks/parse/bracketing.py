"""Scores of constituency trees: labelled precision, recall and F1 of brackets, as evalb computes them.

    precision = right / predicted      recall = right / true      F1 = 2 right / (predicted + true)

The rules are those of Collins' parameter file, with ROOT deleted as TOP is: words tagged as punctuation are left out,
and so are brackets around nothing else; the outermost bracket does not count; ADVP and PRT are the same label, and
functions do not count (NP-SBJ is NP). Equal brackets count as often as they occur. Which words are punctuation is
decided by the tags of the true tree, so that a parser need not predict tags. This module does not need torch.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from heedful.base.errors import counted
from heedful.base.trees import TOP, TRACE, Leaf, Tree
from heedful.metrics.edits import Floats
from heedful.metrics.label_spans import SpanCounts
from heedful.metrics.rows import ItemCounts, ItemValues
from heedful.metrics.scores import f1_of_sums, percent_of_sums

DELETED: Final = frozenset({TOP, "ROOT", TRACE, ",", ":", "``", "''", "."})
SAME: Final = {"PRT": "ADVP"}
_BY_EVALB: Final = "labelled brackets, by evalb's rules"
SHORT: Final = 40  # words: the usual cut-off of short sentences


class Bracket(NamedTuple):
    """A constituent over words, counted without punctuation."""

    label: str
    start: int  # the index of the first word
    end: int  # the index after the last word


@dataclass(frozen=True)
class TreeResult:
    """One sentence: its brackets, and its length with punctuation. A sentence without a predicted tree has none."""

    right: int
    predicted: int
    true: int
    words: int
    parsed: bool

    @property
    def exact(self) -> bool:
        """Whether all brackets are right, and none is missing."""
        return self.parsed and self.right == self.predicted == self.true


@dataclass(frozen=True, eq=False)
class BracketScores:
    """The scores of sentences."""

    sentences: Sequence[TreeResult]

    @property
    def brackets(self) -> SpanCounts:
        """The counts over all sentences: precision, recall and F1 are theirs."""
        right, predicted, true = (
            sum(getattr(sentence, count) for sentence in self.sentences) for count in ("right", "predicted", "true")
        )
        return SpanCounts(right, predicted, true)

    @property
    def exact_match(self) -> float:
        """The fraction of sentences whose brackets are all right; 0 if there are no sentences."""
        return sum(sentence.exact for sentence in self.sentences) / len(self.sentences) if self.sentences else 0.0

    @property
    def unparsed(self) -> int:
        """The number of sentences without a predicted tree."""
        return sum(not sentence.parsed for sentence in self.sentences)

    @property
    def short(self) -> "BracketScores":
        """The scores of short sentences."""
        return BracketScores([sentence for sentence in self.sentences if sentence.words <= SHORT])

    def describe(self) -> str:
        """Describe what was scored."""
        return f"{counted(len(self.sentences), 'sentence')}, {self.brackets.true:,} true brackets"

    def f1_items(self) -> ItemCounts:
        """Return what each sentence adds to F1."""
        return ItemCounts(_BY_EVALB, f1_of_sums, lambda: self._counts("right", "predicted", "true"))

    def share_items(self, of: str) -> ItemCounts:
        """Return what each sentence adds to the share of right brackets among the predicted or the true ones."""
        return ItemCounts(_BY_EVALB, percent_of_sums, lambda: self._counts("right", of))

    def exact_items(self) -> ItemValues:
        """Return whether each sentence has the right brackets."""
        return ItemValues(f"trees; {_BY_EVALB}", [sentence.exact for sentence in self.sentences])

    def _counts(self, *names: str) -> Floats:
        return np.array([[getattr(one, name) for name in names] for one in self.sentences], dtype=np.float64)


def score_trees(predicted: Sequence[Tree | None], true: Sequence[Tree]) -> BracketScores:
    """Compare predicted trees with the true ones of the same sentences.

    A missing tree, or one over other words, has no brackets; the true ones count as missed.
    """
    results = []
    for found, tree in zip(predicted, true, strict=True):
        wanted, ours = Counter(brackets_of(tree, tree)), Counter[Bracket]()
        parsed = found is not None and found.words == tree.words
        if parsed and found is not None:
            ours = Counter(brackets_of(found, tree))
        words = sum(leaf.tag != TRACE for leaf in tree.leaves)
        results.append(TreeResult((ours & wanted).total(), ours.total(), wanted.total(), words, parsed))
    return BracketScores(results)


def brackets_of(tree: Tree, tagged: Tree) -> list[Bracket]:
    """Return the brackets of a tree that count, with the tags of another tree over the same words."""
    kept = [leaf.tag not in DELETED for leaf in tagged.leaves]
    places = [0]  # of each word among those that are kept, and of the end
    for each in kept:
        places.append(places[-1] + each)
    return [
        Bracket(label, places[start], places[end])
        for label, start, end in _constituents(tree)
        if places[start] < places[end] and label not in DELETED
    ]


def _constituents(tree: Tree, start: int = 0) -> Iterator[Bracket]:
    """Yield all constituents over all words, with the labels that are compared."""
    end = start
    for child in tree.children:
        if isinstance(child, Leaf):
            end += 1
        else:
            yield from _constituents(child, end)
            end += len(child.leaves)
    label = tree.label.replace("=", "-").split("-", 1)[0]  # up to the first - or =
    yield Bracket(SAME.get(label, label), start, end)
