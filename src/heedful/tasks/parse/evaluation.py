"""Evaluation of a parser on trees."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from reprlib import repr as shortened
from typing import Final, Protocol, Self, Unpack

import numpy as np

from heedful.base.errors import UserError, counted
from heedful.base.trees import Tree, clean, escape_brackets
from heedful.data.corpora.trees import check_words, tree_of_line
from heedful.decode.search import ProgressCallback
from heedful.metrics.bracketing import SHORT, BracketScores, score_trees
from heedful.metrics.edits import Floats
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.metrics.scores import ItemScore, ItemScores, Score, f1_of_sums, finite_scores, mean_score, percent_of_sums
from heedful.tasks.parse.parse import Parse, ParseOptions

_BY_EVALB: Final = "labelled brackets, by evalb's rules"


class Parses(Protocol):
    """What is asked of a parser: see `Parser`."""

    def stream_detailed(
        self,
        texts: Iterable[str],
        *,
        name: str = "texts",
        progress: ProgressCallback = lambda ready: None,
        **options: Unpack[ParseOptions],
    ) -> Iterator[list[Parse]]:
        """Yield the parses of each sentence."""
        ...


@dataclass(frozen=True, eq=False)
class ParseEvaluation:
    """Scores of a parser on sentences, and its trees."""

    true: tuple[Tree, ...]
    predicted: tuple[Tree | None, ...]
    result: BracketScores
    seconds: float  # time to parse
    lines: tuple[bool, ...]  # whether each line of the corpus has a tree: the others are left out
    own: Mapping[str, float] = field(default_factory=dict)  # scores by metrics of the caller's program

    def with_metrics(self, metrics: Metrics) -> Self:
        """Return the evaluation with the scores of these metrics as well."""
        return replace(self, own={**self.own, **score_outputs(metrics, self.predicted, self.true)})

    @property
    def well_formed(self) -> float:
        """The fraction of sentences with a tree over exactly their words."""
        return 1 - self.result.unparsed / len(self.true)

    def scores(self) -> list[Score]:
        """Return labelled F1, precision and recall of brackets, and the fractions of right and well-formed trees."""
        found, short = self.result.brackets, self.result.up_to(SHORT)
        of_short = f"{counted(len(short.sentences), 'sentence')}, {short.brackets.true:,} true brackets"
        parsed = len(self.true) - self.result.unparsed
        return [
            Score("f1", "F1", found.f1, "percent", f"labelled brackets, by evalb's rules; {found.right:,} are right"),
            Score("precision", "precision", found.precision, "percent", f"of {found.predicted:,} predicted brackets"),
            Score("recall", "recall", found.recall, "percent", f"of {found.true:,} true brackets"),
            Score("f1_short", f"F1 up to {SHORT} words", short.brackets.f1, "percent", of_short),
            Score("exact_match", "exact match", self.result.exact_match, "percent", "trees whose brackets are right"),
            Score("well_formed", "well-formed", self.well_formed, "percent", f"{parsed:,} of {len(self.true):,}"),
            *(Score(name, name, value) for name, value in self.own.items()),
        ]

    def item_scores(self) -> ItemScores:
        """Return what each sentence adds to the scores."""
        found = self.result.sentences

        def counts(*names: str) -> Floats:
            return np.array([[getattr(one, name) for name in names] for one in found], dtype=np.float64)

        return ItemScores(
            "sentence",
            tuple(map(str, self.true)),
            (
                ItemScore("f1", "F1", _BY_EVALB, f1_of_sums, lambda: counts("right", "predicted", "true")),
                mean_score("exact_match", "exact match", f"trees; {_BY_EVALB}", lambda: [one.exact for one in found]),
                ItemScore("precision", "precision", _BY_EVALB, percent_of_sums, lambda: counts("right", "predicted")),
                ItemScore("recall", "recall", _BY_EVALB, percent_of_sums, lambda: counts("right", "true")),
            ),
            [
                (" ".join(true.words), str(true), "" if said is None else str(said))
                for said, true in zip(self.predicted, self.true, strict=True)
            ],
            [one.words for one in found],
            "sentence",
        )

    def remarks(self) -> list[str]:
        """Return the time taken."""
        sentences = counted(len(self.true), "sentence")
        return [f"{sentences} in {self.seconds:.1f} s, {len(self.true) / self.seconds:,.1f} sentences/s"]

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        return {
            **finite_scores(self.scores()),
            "sentences": len(self.true),
            "unparsed": self.result.unparsed,
            "seconds": round(self.seconds, 3),
        }

    def outputs(self) -> Iterator[str]:
        """Yield one tree per line of the corpus; an empty line where there is none."""
        found = iter(self.predicted)
        trees = (next(found) if has_tree else None for has_tree in self.lines)
        return ("" if tree is None else str(tree) for tree in trees)


def evaluate_parser(
    parser: Parses,
    trees: Sequence[Tree | None],
    *,
    name: str = "trees",
    progress: ProgressCallback = lambda ready: None,
    **options: Unpack[ParseOptions],
) -> ParseEvaluation:
    """Parse the words of trees and compare with the trees; blank ones are left out. Options are those of a search."""
    true = tuple(tree for tree in trees if tree is not None)
    if not true:
        raise UserError(f"{name} has no tree to compare with.")
    began = time.perf_counter()
    texts = [" ".join(tree.words) for tree in true]
    predicted = tuple(best.tree for best, *_ in parser.stream_detailed(texts, name=name, progress=progress, **options))
    seconds = time.perf_counter() - began
    return ParseEvaluation(
        true, predicted, score_trees(predicted, true), seconds, tuple(tree is not None for tree in trees)
    )


def trees_of_rows(rows: Iterable[object], name: str) -> list[Tree | None]:
    """Return the trees of data in memory: bracketed texts, trees, or pairs of a sentence and its bracketed tree."""
    return [_tree_of_row(row, f"{name}, row {number:,}") for number, row in enumerate(rows, start=1)]


def _tree_of_row(row: object, where: str) -> Tree | None:
    match row:
        case Tree():
            return clean(row)
        case str():
            return tree_of_line(row, where)
        case (str() as sentence, str() as bracketed):
            return checked_tree(sentence, bracketed, where)
        case _:
            raise UserError(
                f"{where} is {shortened(row)}, but must be a tree: a bracketed text, a `heedful.Tree`, or a sentence "
                "and its bracketed text."
            )


def checked_tree(sentence: str, bracketed: str, where: str) -> Tree | None:
    """Return the tree of a sentence; refuse one over other words."""
    tree = tree_of_line(bracketed, where)
    words = escape_brackets(sentence).split()
    if tree is None:
        if words:
            raise UserError(f"{where}: the sentence has no tree: leave it out.")
        return None
    check_words(tree, words, where)
    return tree
