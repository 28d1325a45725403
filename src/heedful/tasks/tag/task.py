"""The task of taggers: words and their labels, accuracy and F1."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import torch

from heedful.config.corpora.containers import AnyCorpus
from heedful.config.model.encoder_only import TaggerModel
from heedful.config.model.encoders import RecurrentLettersTable
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules, model_of
from heedful.data.batches.tagged import TaggedCollator
from heedful.data.collate import StaticShape, rows_by_owner
from heedful.data.corpora.tagged import TaggedText, read_tagged
from heedful.data.epochs.loader import RowFeed
from heedful.data.epochs.plan import spread
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.texts import listed_classes
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.rows import validation_scores
from heedful.models.bundle import Bundle
from heedful.models.networks import WordClassifier
from heedful.tasks.shared.line import Line
from heedful.tasks.shared.static_shapes import static_layout
from heedful.tasks.shared.task import Task
from heedful.tasks.shared.validation import Asked, Validated
from heedful.tasks.tag.baseline import count_sentences, labels_of, tag_as_usual
from heedful.tasks.tag.data import prepare_tagged
from heedful.tasks.tag.label_scores import LabelScores
from heedful.tasks.tag.metrics import METRICS
from heedful.tasks.tag.model import Tagger
from heedful.tasks.tag.objective import LabelSequences, WordLabels
from heedful.tasks.tag.rules import TAG
from heedful.tasks.tag.scoring import decide_labels, label_loss, scores_of
from heedful.tasks.tag.service import TagService

_SHORTEST: Final = 16  # tokens: batches of sentences that are all shorter leave some of the budget unused


class TagTask(Task):
    """Labels the words of sentences."""

    rules: TaskRules = TAG
    model_type = Tagger
    service_type = TagService
    doing = "tagging"
    arguments = ("< sentences.txt", '["..."]')

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; a given vocabulary and given labels are kept."""
        prepared = prepare_tagged(recipe, say, given)
        say(listed_classes(prepared, "labels"))
        return prepared

    def objective(self, recipe: Recipe, prepared: Prepared) -> WordLabels | LabelSequences:
        """Make the objective that training minimises."""
        return LabelSequences() if model_of(recipe, TaggerModel).crf else WordLabels(recipe.label_smoothing)

    def feed(self, recipe: Recipe, prepared: Prepared) -> RowFeed[Any]:
        """Make the training batches. Which sentences share a batch does not depend on the device."""
        most_words = max(int(store.lengths("words").max()) for store in prepared.train)
        return RowFeed.of(recipe, prepared, TaggedCollator(most_words), _SHORTEST)

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding."""
        model = model_of(recipe, TaggerModel)
        if isinstance(model.letters, RecurrentLettersTable) or model.feedback == "output":
            return None  # what runs step by step has as many steps as the longest of a batch
        return static_layout(model.encoder, recipe.data, recipe.data.max_length, _SHORTEST, precision)

    def validate(self, bundle: Bundle[WordClassifier], prepared: Prepared, asked: Asked) -> Validated:
        """Tag sentences of the validation corpora, and compare with their labels."""
        result = self.evaluate_stores(bundle, prepared.valid, asked)
        return Validated(validation_scores(METRICS, result), result.said, result.true)

    def line(self, bundle: Bundle[WordClassifier], prepared: Prepared, asked: Asked) -> Line:
        """Give each word of validation sentences its most frequent label in training; see `baseline.py`."""
        count = count_sentences(prepared.valid)
        rows = spread(asked.most or count, count)
        said, sample = tag_as_usual(prepared.train, prepared.valid, rows, bundle.vocabularies["text"])
        result = LabelScores.of(bundle.vocabularies.labels, said, [*labels_of(prepared.valid, rows)])
        scores = validation_scores(METRICS, result)
        del scores["loss"]  # which needs probabilities
        usual = "f1" if result.marks_spans else "accuracy"
        return Line({usual: scores[usual], **scores}, sample)

    def evaluate_stores(
        self,
        bundle: Bundle[WordClassifier],
        stores: Sequence[TokenStore],
        asked: Asked = Asked(),  # noqa: B008 - it never changes
    ) -> LabelScores:
        """Return a model's labels for the words of stores next to the true ones.

        Of more sentences than asked for, that number at equal distances is evaluated.
        """
        sizes = [count_sentences([store]) for store in stores]
        chosen = spread(asked.most or sum(sizes), sum(sizes))
        scores, true = [], [*labels_of(stores, chosen)]
        with asked.show("validating", len(chosen)) as advance:
            for store, (_, own) in zip(stores, rows_by_owner(sizes, chosen), strict=True):
                scores += scores_of(bundle, store, own.tolist())
                advance(len(own))
        said = [decided.tolist() for decided in decide_labels(bundle.model, scores)]
        return LabelScores.of(bundle.vocabularies.labels, said, true, label_loss(bundle.model, scores, true))

    def read_corpus(self, model: Tagger, corpus: AnyCorpus, folder: str) -> Iterable[TaggedText]:
        """Read sentences with labels."""
        return read_tagged(corpus, folder)
