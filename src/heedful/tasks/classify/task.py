"""The task of classifiers: texts and their classes, accuracy and F1."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from heedful.base.progress import ShowProgress, show_nothing
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.pairs import TextCorpus
from heedful.config.model.attention import SEVERAL_PLACES
from heedful.config.model.encoder_only import ClassifierModel
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.transformer import TransformerStack
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.config.task_rules import TaskRules
from heedful.data.batch_layout import CPU_MULTIPLE, StaticShape
from heedful.data.batches.texts import TextFeed
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.texts import Text, labels_of, read_texts, text_of_line
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.texts import prepare_texts
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.networks import Classifier
from heedful.nn.layers.ngrams import NgramBag
from heedful.tasks.classify.evaluation import ClassEvaluation, evaluate_classifier
from heedful.tasks.classify.first_weights import set_first_weights
from heedful.tasks.classify.model import TextClassifier, read_classifier
from heedful.tasks.classify.rules import CLASSIFY
from heedful.tasks.classify.scoring import collator_of
from heedful.tasks.classify.validation import ClassifierValidator
from heedful.tasks.shared.classes.class_weights import class_weights, listed_classes, weighted_stores
from heedful.tasks.shared.loaded_model import Placement
from heedful.tasks.shared.static_shapes import SHORTEST_TEXT, shape_of_pairs, static_layout
from heedful.tasks.shared.task import Task
from heedful.training.objectives import OneLabel, SeveralLabels
from heedful.training.remedies.language_loss import WithLanguageLoss


class ClassifyTask(Task):
    """Classifies texts."""

    rules: TaskRules = CLASSIFY

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; a given vocabulary and given classes are kept."""
        model = model_of(recipe, ClassifierModel)
        prepared = prepare_texts(
            recipe,
            say,
            given,
            labelled=model.labels,
            documents=model.nested,
            letters=model.reads_letters,
        )
        say(listed_classes(prepared))
        return prepared

    def set_weights(self, network: nn.Module, recipe: Recipe, prepared: Prepared) -> None:
        """Begin a bag of n-grams with rarities and the solution of a regression, if the recipe says so."""
        encoder = getattr(network, "encoder", None)
        if isinstance(network, Classifier) and isinstance(encoder, NgramBag) and encoder.weights is not None:
            collator = collator_of(recipe, len(prepared.vocabularies.labels))
            several = model_of(recipe, ClassifierModel).labels == "several"
            set_first_weights(network, encoder, collator, prepared.train, several)

    def objective(self, recipe: Recipe, prepared: Prepared) -> OneLabel | WithLanguageLoss:
        """Make the objective that training minimises."""
        several = model_of(recipe, ClassifierModel).labels == "several"
        weights = class_weights(recipe.train.class_weights, prepared, several)
        classes = (SeveralLabels if several else OneLabel)(recipe.label_smoothing, weights)
        return WithLanguageLoss(classes, recipe.train.auxiliary) if recipe.train.auxiliary else classes

    def feed(self, recipe: Recipe, prepared: Prepared) -> TextFeed:
        """Make the training batches. Which texts share a batch does not depend on the device."""
        data = recipe.data
        return TextFeed(
            prepared.train,
            prepared.weights,
            collator_of(recipe, len(prepared.vocabularies.labels)),
            recipe.train.seed,
            data.batch_tokens,
            max(1, data.batch_tokens // SHORTEST_TEXT),
            multiple=CPU_MULTIPLE,
        )

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding."""
        model = model_of(recipe, ClassifierModel)
        encoder = model.encoder.decoder if isinstance(model.encoder, LanguageModelTable) else model.encoder
        if not isinstance(encoder, TransformerStack) or getattr(model.pool, "alignment", "") in SEVERAL_PLACES:
            return None  # areas of tokens are scored in padded rows
        shape = static_layout(encoder, recipe.data, recipe.data.max_length, SHORTEST_TEXT, precision)
        return shape_of_pairs(shape) if shape is not None and model.joins_after_reading else shape

    def validator(self, bundle: Bundle[Classifier], prepared: Prepared) -> ClassifierValidator:
        """Make the validator that scores the model during training; the recipe's metric comes first."""
        return ClassifierValidator(bundle, prepared.valid, prepared.train)

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the tokens of an epoch, as the model reads them."""
        collator = collator_of(recipe, len(prepared.vocabularies.labels))
        stores = weighted_stores(prepared)
        return float(sum(weight * collator.costs([store], np.arange(len(store)))[0].sum() for store, weight in stores))

    def load(self, folder: Path, placement: Placement, ensemble: Sequence[Path] = ()) -> TextClassifier:
        """Load a bundle as a classifier."""
        return TextClassifier(read_classifier(folder, placement, self.rules))

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        name, argument = ("pairs.tsv", ', ["..."]') if recipe.data.paired else ("texts.txt", "")
        return f"heedful classify {folder} < {name}", f'classify(["..."]{argument})'

    def evaluate(
        self,
        model: TextClassifier,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> ClassEvaluation:
        """Classify a corpus and compare with its labels."""
        texts = list(
            _texts_of_files(model, corpus)
            if isinstance(corpus, TextCorpus)
            else read_texts(corpus, folder, several=model.several)
        )
        with show("classifying", len(texts)) as progress:
            return evaluate_classifier(model, texts, name=corpus.title, progress=progress)


def _texts_of_files(classifier: TextClassifier, corpus: TextCorpus) -> Iterator[Text]:
    """Read texts from one file, single or in tab-separated pairs, and labels from another, separated by commas."""
    for number, (line, said) in enumerate(read_pairs(corpus), start=1):
        text = text_of_line(line, classifier.paired, f"{corpus.source}, line {number:,}")
        labels = () if text.blank else labels_of(said, classifier.several, f"{corpus.target}, line {number:,}")
        yield replace(text, labels=labels, line=number)
