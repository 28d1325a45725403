"""Scores of a parser during training: loss and perplexity of the brackets, and F1 on request."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from heedful.base.trees import Tree
from heedful.config.corpora.containers import Trees
from heedful.data.corpora.trees import read_trees
from heedful.data.epochs.plan import spread
from heedful.data.token_store import TokenStore
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.tasks.parse.evaluation import evaluate_parser
from heedful.tasks.parse.model import Parser
from heedful.tasks.shared.sequences.sequence_validation import SequenceValidator
from heedful.tasks.shared.validation import some_outputs


class ParseValidator(SequenceValidator):
    """Scores a parser during training; the recipe's metric comes first."""

    def __init__(self, bundle: Bundle[EncoderDecoder], stores: Sequence[TokenStore]) -> None:
        super().__init__(bundle, stores)
        self._parser = Parser(bundle)
        self.metrics: Metrics = {}
        self.samples: Sequence[tuple[str, str, str]] = ()

    def _of_outputs(self) -> Mapping[str, float]:
        """Return F1 of greedy parses if it is the recipe's metric, and the scores of the caller's own metrics."""
        if self._settings.metric != "f1" and not self.metrics:
            return {}
        with self.show("validating: parsing", len(self._trees)) as advance:
            found = evaluate_parser(self._parser, self._trees, name="`data.valid`", progress=advance, beam=1)
        own = score_outputs(self.metrics, found.predicted, found.true)
        words = [" ".join(tree.words) for tree in found.true]
        said = ["" if tree is None else str(tree) for tree in found.predicted]
        self.samples = some_outputs(words, [*map(str, found.true)], said)
        return {"f1": found.result.brackets.f1, **own}

    @cached_property
    def _trees(self) -> list[Tree]:
        data = self._parser.recipe.data
        corpora = [corpus for corpus in data.valid if isinstance(corpus, Trees)]
        trees = [tree for corpus in corpora for tree in read_trees(corpus, data.folder) if tree is not None]
        most = self._settings.max_sentences
        return [trees[index] for index in spread(most or len(trees), len(trees)).tolist()]
