"""The task of parsers: sentences and their trees as sequences of brackets, the next bracket, F1."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from heedful.base.trees import Tree
from heedful.config.corpora.containers import AnyCorpus, Trees
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.trees import read_trees
from heedful.data.prepare.prepared import Prepared
from heedful.metrics.language.perplexity import Likelihood
from heedful.models.bundle import Bundle
from heedful.tasks.parse.baseline import right_branching
from heedful.tasks.parse.bracketing import score_trees
from heedful.tasks.parse.evaluation import ParseEvaluation, checked_tree
from heedful.tasks.parse.model import Parser
from heedful.tasks.parse.rules import PARSE
from heedful.tasks.parse.service import ParseService
from heedful.tasks.shared.line import Line
from heedful.tasks.shared.sequences.sequence_task import SequenceTask
from heedful.tasks.shared.validation import Asked, Sample, some_outputs


class ParseTask(SequenceTask):
    """Parses sentences."""

    rules: TaskRules = PARSE
    model_type = Parser
    service_type = ParseService
    arguments = ("< sentences.txt", '["..."]')
    doing = "parsing"

    def validation_rows(self, recipe: Recipe) -> Iterable[Tree]:
        """Read trees, but no blank ones."""
        corpora = (self.read_corpus(None, corpus, recipe.data.folder) for corpus in recipe.data.valid)
        return (tree for corpus in corpora for tree in corpus if tree is not None)

    def sample_options(self, recipe: Recipe, metric: str, predicted: Likelihood) -> Mapping[str, Any]:
        """Return none: all scores are of trees."""
        return {}

    def written_by_line(self, bundle: Bundle[Any], prepared: Prepared, rows: Sequence[Tree], asked: Asked) -> Line:
        """Score right-branching trees; see `baseline.py`."""
        trees, sample = right_branching(prepared.train, bundle.vocabularies["target"])
        said = tuple(trees.tree(true.words) for true in rows)
        found = ParseEvaluation(tuple(rows), said, score_trees(said, rows), 0.0, ())
        return Line(found.validation_scores(), sample)

    def samples(self, rows: Sequence[Tree], found: ParseEvaluation) -> Sequence[Sample]:
        """Return a few sentences with their trees, true and predicted."""
        return some_outputs(*zip(*found.shown(), strict=True))

    def read_corpus(self, model: object, corpus: AnyCorpus, folder: str) -> Iterable[Tree | None]:
        """Read trees from one file, or from two files, sentences and their trees, line by line."""
        if isinstance(corpus, Trees):
            return read_trees(corpus, folder)
        target = corpus.files()[-1]
        return (
            checked_tree(sentence, bracketed, f"{target}, line {number:,}")
            for number, (sentence, bracketed) in enumerate(read_pairs(corpus, folder), start=1)
        )
