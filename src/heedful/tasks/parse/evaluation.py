"""Evaluation of a parser on trees."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from reprlib import repr as shortened

from heedful.base.errors import UserError, counted
from heedful.base.trees import Tree, clean, escape_brackets
from heedful.data.corpora.trees import check_words, tree_of_line
from heedful.metrics.rows import validation_scores
from heedful.metrics.scores import ItemScores, Score, item_scores_of, scores_of
from heedful.tasks.parse.bracketing import BracketScores
from heedful.tasks.parse.metrics import METRICS
from heedful.tasks.shared.evaluation import Evaluation


@dataclass(frozen=True, eq=False)
class ParseEvaluation(Evaluation):
    """Scores of a parser on sentences, and its trees."""

    true: tuple[Tree, ...]
    predicted: tuple[Tree | None, ...]
    result: BracketScores
    seconds: float  # time to parse
    lines: tuple[bool, ...]  # whether each line of the corpus has a tree: the others are left out

    @property
    def well_formed(self) -> float:
        """The fraction of sentences with a tree over exactly their words."""
        return 1 - self.result.unparsed / len(self.true)

    def shown(self) -> list[tuple[str, str, str]]:
        """Return the words of each sentence, its tree, and the predicted one."""
        return [
            (" ".join(true.words), str(true), "" if found is None else str(found))
            for found, true in zip(self.predicted, self.true, strict=True)
        ]

    def task_scores(self) -> list[Score]:
        """Return labelled F1, precision and recall of brackets, and the fractions of right and well-formed trees."""
        return scores_of(METRICS, self)

    def validation_scores(self) -> dict[str, float]:
        """Return the scores that a validation reports."""
        return validation_scores(METRICS, self)

    def outputs_and_references(self) -> tuple[Sequence[Tree | None], Sequence[Tree]]:
        """Return the predicted trees, and the true ones."""
        return self.predicted, self.true

    def item_scores(self) -> ItemScores:
        """Return what each sentence adds to the scores."""
        lengths = [one.words for one in self.result.sentences]
        trees = tuple(map(str, self.true))
        return ItemScores("sentence", trees, item_scores_of(METRICS, self), self.shown(), lengths, "sentence")

    def remarks(self) -> list[str]:
        """Return the time taken."""
        sentences = counted(len(self.true), "sentence")
        return [f"{sentences} in {self.seconds:.1f} s, {len(self.true) / self.seconds:,.1f} sentences/s"]

    def facts(self) -> dict[str, object]:
        """Return the numbers of sentences, and the time taken."""
        return {
            "sentences": len(self.true),
            "unparsed": self.result.unparsed,
            "seconds": round(self.seconds, 3),
        }

    def outputs(self) -> Iterator[str]:
        """Yield one tree per line of the corpus; an empty line where there is none."""
        found = iter(self.predicted)
        trees = (next(found) if has_tree else None for has_tree in self.lines)
        return ("" if tree is None else str(tree) for tree in trees)


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
