"""The task of parsers: sentences and their trees as sequences of brackets, the next bracket, F1."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heedful.base.progress import ShowProgress, show_nothing
from heedful.base.trees import Tree
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.containers import Trees
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.trees import read_trees
from heedful.data.prepare.prepared import Prepared
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.tasks.parse.evaluation import ParseEvaluation, checked_tree, evaluate_parser
from heedful.tasks.parse.model import Parser
from heedful.tasks.parse.rules import PARSE
from heedful.tasks.parse.validation import ParseValidator
from heedful.tasks.shared.sequences.sequence_task import SequenceTask


class ParseTask(SequenceTask):
    """Parses sentences."""

    rules: TaskRules = PARSE
    model_type = Parser

    def validator(self, bundle: Bundle[EncoderDecoder], prepared: Prepared) -> ParseValidator:
        """Make the validator that scores the model during training; the recipe's metric comes first."""
        return ParseValidator(bundle, prepared.valid)

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        return f"heedful parse {folder} < sentences.txt", 'parse(["..."])'

    def evaluate(
        self,
        model: Parser,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> ParseEvaluation:
        """Parse the words of a corpus and compare with its trees; `options` are those of the search."""
        trees = list(read_trees(corpus, folder)) if isinstance(corpus, Trees) else _paired_trees(corpus, folder)
        with show("parsing", len(trees)) as progress:
            return evaluate_parser(model, trees, name=corpus.title, progress=progress, **(options or {}))


def _paired_trees(corpus: AnyCorpus, folder: str) -> list[Tree | None]:
    """Return the trees of two files, sentences and their trees, line by line."""
    target = corpus.files()[-1]
    return [
        checked_tree(sentence, bracketed, f"{target}, line {number:,}")
        for number, (sentence, bracketed) in enumerate(read_pairs(corpus, folder), start=1)
    ]
