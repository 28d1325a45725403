"""The task of language models: they learn to predict the next token of running text."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from heedful.base.notes import ShowProgress, show_nothing
from heedful.config.checks import carries_state
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.model.language import LanguageModelTable, RecurrentDecoderTable, TransformerDecoderTable
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules, model_of
from heedful.data.batches.windows import Streams, WindowFeed
from heedful.data.collate import CPU_MULTIPLE, StaticShape
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.texts import prepare_texts
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.networks import LanguageModel
from heedful.tasks.generate.baseline import count_ngrams, likelihood_of
from heedful.tasks.generate.evaluation import LanguageEvaluation, evaluate_language
from heedful.tasks.generate.model import TextGenerator
from heedful.tasks.generate.predicted_text import predicted_text
from heedful.tasks.generate.rules import GENERATE
from heedful.tasks.generate.service import GenerateService
from heedful.tasks.shared.line import Line
from heedful.tasks.shared.static_shapes import SHORTEST_TEXT, static_layout
from heedful.tasks.shared.task import Task
from heedful.tasks.shared.validation import Asked, Validated
from heedful.training.objectives import NextToken
from heedful.training.truncated import ActivationPenalty, TruncatedBackPropagation


class GenerateTask(Task):
    """Predicts the next token of texts."""

    rules: TaskRules = GENERATE
    model_type = TextGenerator
    service_type = GenerateService
    arguments = ('--prompt "Once upon a time"', '"Once upon a time"')

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; a given vocabulary is kept."""
        return prepare_texts(recipe, say, given, running=True)

    def objective(self, recipe: Recipe, prepared: Prepared) -> NextToken | TruncatedBackPropagation:
        """Make the objective that training minimises."""
        decoder = model_of(recipe, LanguageModelTable).decoder
        if not carries_state(recipe):
            return NextToken(recipe.label_smoothing)
        assert isinstance(decoder, RecurrentDecoderTable)
        penalty = ActivationPenalty(decoder.penalty_activation, decoder.penalty_change)
        return TruncatedBackPropagation(recipe.label_smoothing, penalty if decoder.penalized else None)

    def feed(self, recipe: Recipe, prepared: Prepared) -> WindowFeed | Streams:
        """Make the training batches."""
        data = recipe.data
        if carries_state(recipe):
            texts = [store.streams["text"].values for store in prepared.train]
            text = texts[0] if len(texts) == 1 else np.concatenate(texts)
            return Streams.of(text, _streams(recipe), data.max_length, recipe.train.seed)
        return WindowFeed(
            prepared.train,
            prepared.weights,
            seed=recipe.train.seed,
            batch_tokens=data.batch_tokens,
            max_length=data.max_length,
            borders=data.borders,
            max_sentences=max(1, data.batch_tokens // _shortest(recipe)),
            multiple=CPU_MULTIPLE,
        )

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding."""
        decoder, data = model_of(recipe, LanguageModelTable).decoder, recipe.data
        if carries_state(recipe):
            return StaticShape(_streams(recipe) * data.max_length, _streams(recipe), data.max_length)
        if not isinstance(decoder, TransformerDecoderTable):
            return None
        shape = static_layout(decoder, data, data.max_length, _shortest(recipe), precision)
        if shape is None or data.borders == "closed":
            return shape
        return StaticShape.rows(data.batch_tokens, data.max_length)

    def validate(self, bundle: Bundle[LanguageModel], prepared: Prepared, asked: Asked) -> Validated:
        """Predict the tokens of the validation corpora, always the same."""
        text = predicted_text(bundle.recipe, prepared.valid)
        found = text.likelihood(bundle.model, asked.show, "validating: batch", asked.most)
        return Validated({"loss": found.loss, "perplexity": found.perplexity})

    def line(self, bundle: Bundle[LanguageModel], prepared: Prepared, asked: Asked) -> Line:
        """Predict the same tokens by counts of n-grams; see `baseline.py`."""
        recipe, vocabulary = bundle.recipe, bundle.vocabularies["text"].size
        joined = carries_state(recipe) or recipe.data.borders == "open"
        model, sample = count_ngrams(prepared.train, vocabulary, joined)
        found = likelihood_of(model, predicted_text(recipe, prepared.valid).stretches(asked.most))
        return Line({"perplexity": found.perplexity, "loss": found.loss}, sample)

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the tokens that an epoch predicts."""
        counts = [store.tokens("text") - len(store) for store in prepared.train]
        return float(sum(count * weight for count, weight in zip(counts, prepared.weights, strict=True)))

    def evaluate(
        self,
        model: TextGenerator,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> LanguageEvaluation:
        """Score how well the model predicts the texts of a corpus."""
        return evaluate_language(model.bundle, corpus, folder, show=show, **(options or {}))


def _streams(recipe: Recipe) -> int:
    """Return the number of parallel streams that fill a batch."""
    return recipe.data.batch_tokens // recipe.data.max_length


def _shortest(recipe: Recipe) -> int:
    """Return the length of the shortest windows that fill a batch: open borders leave none shorter than the longest."""
    return recipe.data.max_length if recipe.data.borders == "open" else min(SHORTEST_TEXT, recipe.data.max_length)
