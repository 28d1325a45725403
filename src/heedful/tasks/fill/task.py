"""The task of masked language models: running text, masked tokens, and next-sentence prediction."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from heedful.base.notes import ShowProgress, show_nothing
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.model.encoder_only import BertModel
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules, model_of
from heedful.data.batches.masked import MaskedBatch, MaskedFeed, some_inputs
from heedful.data.batches.stretches import Spans
from heedful.data.collate import StaticShape
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.texts import prepare_texts
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.language.perplexity import predict_masked
from heedful.metrics.rows import validation_scores
from heedful.models.bundle import Bundle
from heedful.models.networks import MaskedModel
from heedful.tasks.fill.baseline import fill_as_usual
from heedful.tasks.fill.data import evaluation_feed, masked_feed
from heedful.tasks.fill.evaluation import MaskedEvaluation, evaluate_masked
from heedful.tasks.fill.metrics import VALIDATED
from heedful.tasks.fill.model import MaskFiller
from heedful.tasks.fill.objective import MaskedTokens
from heedful.tasks.fill.rules import FILL
from heedful.tasks.fill.service import FillService
from heedful.tasks.shared.line import Line
from heedful.tasks.shared.static_shapes import SHORTEST_TEXT, static_layout
from heedful.tasks.shared.task import Task, Validator
from heedful.tasks.shared.validation import Asked, Validated


class FillTask(Task):
    """Predicts the masked tokens of texts."""

    rules: TaskRules = FILL
    model_type = MaskFiller
    service_type = FillService
    arguments = ('"... [MASK] ..."', '"... [MASK] ..."')

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; a given vocabulary is kept."""
        return prepare_texts(recipe, say, given, mask=True, documents=True)

    def objective(self, recipe: Recipe, prepared: Prepared) -> MaskedTokens:
        """Make the objective that training minimises."""
        return MaskedTokens(recipe.label_smoothing)

    def feed(self, recipe: Recipe, prepared: Prepared) -> MaskedFeed:
        """Make the training batches. Which texts share a batch does not depend on the device."""
        return masked_feed(recipe, prepared.vocabularies["text"], prepared.train, prepared.weights)

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding."""
        return static_layout(model_of(recipe, BertModel), recipe.data, recipe.data.max_length, SHORTEST_TEXT, precision)

    def validator(self, bundle: Bundle[MaskedModel], prepared: Prepared) -> Validator:
        """Refuse unsuitable documents, before training and not at the first validation."""
        if prepared.valid:
            evaluation_feed(bundle, prepared.valid, "`data.valid`")
        return super().validator(bundle, prepared)

    def validate(self, bundle: Bundle[MaskedModel], prepared: Prepared, asked: Asked) -> Validated:
        """Fill the masks of the validation corpora, always the same."""
        feed, plan = _planned(bundle, prepared, asked)
        with asked.show("validating: batch", len(plan)) as advance:

            def batches() -> Iterator[MaskedBatch]:
                for spans in plan:
                    yield feed.batch(spans)
                    advance(1)

            found = predict_masked(bundle.model, batches())
        scores = validation_scores(VALIDATED, found)
        return Validated(scores if found.next_accuracy is None else {**scores, "next_accuracy": found.next_accuracy})

    def line(self, bundle: Bundle[MaskedModel], prepared: Prepared, asked: Asked) -> Line:
        """Fill the same masks with the most frequent token; see `baseline.py`."""
        feed, plan = _planned(bundle, prepared, asked)
        found, sample = fill_as_usual(prepared.train, bundle.vocabularies["text"].size, map(feed.batch, plan))
        return Line({"accuracy": found.accuracy, **validation_scores(VALIDATED, found)}, sample)

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the tokens of the first epoch; others differ, as each cuts texts differently."""
        return float(sum(spans.lengths.sum() for spans in self.feed(recipe, prepared).plan(0)))

    def evaluate(
        self,
        model: MaskFiller,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> MaskedEvaluation:
        """Mask a corpus, always in the same way, and score the model's predictions."""
        return evaluate_masked(model.bundle, corpus, folder)


def _planned(bundle: Bundle[MaskedModel], prepared: Prepared, asked: Asked) -> tuple[MaskedFeed, list[Spans]]:
    """Return the batches of a validation before they are made."""
    feed = evaluation_feed(bundle, prepared.valid, "`data.valid`")
    return feed, list(feed.plan(0) if asked.most is None else some_inputs(feed, asked.most))
