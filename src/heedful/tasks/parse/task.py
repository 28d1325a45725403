"""The task of parsers: sentences and their trees as sequences of brackets, the next bracket, F1."""

from collections.abc import Iterable
from pathlib import Path

from heedful.base.trees import Tree
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.containers import Trees
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.trees import read_trees
from heedful.data.epochs.plan import spread
from heedful.data.prepare.prepared import Prepared
from heedful.metrics.rows import validation_scores
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.tasks.parse.evaluation import checked_tree
from heedful.tasks.parse.metrics import METRICS
from heedful.tasks.parse.model import Parser
from heedful.tasks.parse.rules import PARSE
from heedful.tasks.shared.sequences.sequence_task import SequenceTask
from heedful.tasks.shared.validation import Asked, Validated, some_outputs


class ParseTask(SequenceTask):
    """Parses sentences."""

    rules: TaskRules = PARSE
    model_type = Parser
    doing = "parsing"

    def validate(self, bundle: Bundle[EncoderDecoder], prepared: Prepared, asked: Asked) -> Validated:
        """Predict the brackets of the validation corpora; also parse sentences greedily, if F1 is asked for."""
        predicted, recipe = self.likelihood(bundle, prepared, asked), bundle.recipe
        scores = {"loss": predicted.loss, "perplexity": predicted.perplexity}
        if asked.metric in scores and not asked.outputs:
            return Validated(scores)
        corpora = [self.read_corpus(None, corpus, recipe.data.folder) for corpus in recipe.data.valid]
        trees = [tree for corpus in corpora for tree in corpus if tree is not None]
        rows = [trees[index] for index in spread(asked.most or len(trees), len(trees)).tolist()]
        with asked.show("validating: parsing", len(rows)) as advance:
            parser: Parser = self.model_in_use(bundle)
            found = parser.evaluate_rows(rows, name="`data.valid`", progress=advance, beam=1)
        scores |= validation_scores(METRICS, found)
        return Validated(scores, found.predicted, found.true, some_outputs(*zip(*found.shown(), strict=True)))

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        return f"heedful parse {folder} < sentences.txt", 'parse(["..."])'

    def read_corpus(self, model: object, corpus: AnyCorpus, folder: str) -> Iterable[Tree | None]:
        """Read trees from one file, or from two files, sentences and their trees, line by line."""
        if isinstance(corpus, Trees):
            return read_trees(corpus, folder)
        target = corpus.files()[-1]
        return (
            checked_tree(sentence, bracketed, f"{target}, line {number:,}")
            for number, (sentence, bracketed) in enumerate(read_pairs(corpus, folder), start=1)
        )
