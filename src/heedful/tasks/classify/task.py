"""The task of classifiers: texts and their classes, accuracy and F1."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from heedful.config.model.classifier import ClassifierModel
from heedful.config.model.encoders import HierarchicalEncoderTable
from heedful.config.model.transformer import TransformerStack
from heedful.config.recipe import Recipe
from heedful.data.batch_layout import CPU_MULTIPLE, StaticShape
from heedful.data.batches.documents import DocumentCollator
from heedful.data.batches.texts import AnyTextCollator, TextCollator, TextFeed
from heedful.data.epochs.plan import batches_by_length, spread
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.text_stores import counts_of
from heedful.data.prepare.texts import prepare_texts
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.errors import UserError, suggestion
from heedful.metrics.classification import ClassificationResult, class_loss, class_scores, decide_classes, mark_classes
from heedful.models.bundle import Bundle
from heedful.models.networks import Classifier
from heedful.tasks.shared.static_shapes import SHORTEST_TEXT, static_layout
from heedful.tasks.shared.validation_scores import metric_first
from heedful.training.objectives import OneLabel, SeveralLabels


class ClassifyTask:
    """From texts to classes."""

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; the vocabulary and the classes that are given are kept."""
        prepared = prepare_texts(recipe, say, given)
        say(f"{len(prepared.vocabularies.labels)} classes: {_listed(prepared)}")
        return prepared

    def objective(self, recipe: Recipe, prepared: Prepared) -> OneLabel:
        """What training minimises."""
        kind = SeveralLabels if _model(recipe).labels == "several" else OneLabel
        return kind(recipe.label_smoothing, _class_weights(recipe, prepared))

    def feed(self, recipe: Recipe, prepared: Prepared) -> TextFeed:
        """The training batches. Which texts stand together depends on no device."""
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
        """The one shape of a GPU's batches, where attention runs straight on it."""
        encoder = _model(recipe).encoder
        if not isinstance(encoder, TransformerStack):
            return None
        return static_layout(encoder, recipe.data, recipe.data.max_length, SHORTEST_TEXT, precision)

    def judge(self, bundle: Bundle[Classifier], prepared: Prepared) -> "ClassifierValidator":
        """What scores the model in training; the recipe's metric comes first."""
        return ClassifierValidator(bundle, prepared.valid)

    def tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """The tokens of an epoch, as they are read."""
        collator = collator_of(recipe, len(prepared.vocabularies.labels))
        read = (
            weight * collator.costs([store], np.arange(len(store)))[0].sum() for store, weight in _weighted(prepared)
        )
        return float(sum(read))


class ClassifierValidator:
    """Scores a classifier in training, as it stands; the recipe's metric comes first."""

    def __init__(self, bundle: Bundle[Classifier], stores: tuple[TokenStore, ...]) -> None:
        self._bundle, self._stores = bundle, stores
        self._settings = bundle.recipe.train.validation

    def __call__(self) -> Mapping[str, float]:
        """All scores; none where there is nothing to judge by."""
        if not self._stores:
            return {}
        judged, loss = judge_stores(self._bundle, self._stores, self._settings.max_sentences)
        scores = {"loss": loss, "accuracy": judged.accuracy, "f1": judged.macro_f1}
        return metric_first(scores, self._settings.metric)


def judge_stores(
    bundle: Bundle[Classifier], stores: tuple[TokenStore, ...], most: int | None = None
) -> tuple[ClassificationResult, float]:
    """What a model says of labelled texts, beside the truth; and its loss, by text.

    Of more than `most` texts so many are judged, at equal distances: a file may be sorted by its labels.
    """
    labels, several = bundle.vocabularies.labels, _model(bundle.recipe).labels == "several"
    found = [store.streams["label"] for store in stores]
    classes = [ragged[row].tolist() for ragged in found for row in range(len(ragged))]
    rows = spread(most or len(classes), len(classes))
    scores_BC = scores_of(bundle, stores, rows)
    true = mark_classes([classes[row] for row in rows], len(labels))
    return ClassificationResult(labels, true, decide_classes(scores_BC, several)), class_loss(scores_BC, true, several)


def scores_of(
    bundle: Bundle[Classifier], stores: tuple[TokenStore, ...], rows: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> Tensor:
    """The scores of every class of texts, in the order of the rows."""
    recipe = bundle.recipe
    collator = collator_of(recipe, len(bundle.vocabularies.labels))
    plan = batches_by_length(collator.costs(stores, rows), batch_tokens=recipe.data.batch_tokens)
    batches = (collator.batch(stores, rows[places], multiple=CPU_MULTIPLE) for places in plan)
    scores_BC = torch.empty(len(rows), len(bundle.vocabularies.labels))
    for places, scored in zip(plan, class_scores(bundle.model, batches), strict=True):
        scores_BC[places] = scored
    return scores_BC


def collator_of(recipe: Recipe, classes: int) -> AnyTextCollator:
    """How the recipe's texts become a model's input."""
    data, model = recipe.data, _model(recipe)
    several = classes if model.labels == "several" else 0
    if isinstance(model.encoder, HierarchicalEncoderTable):
        return DocumentCollator(data.max_length, model.encoder.max_sentence, data.cut, several)
    return TextCollator(data.max_length, data.cut, data.paired, several)


def _model(recipe: Recipe) -> ClassifierModel:
    assert isinstance(recipe.model, ClassifierModel)
    return recipe.model


def _class_weights(recipe: Recipe, prepared: Prepared) -> Tensor | None:
    """balanced: n / (C n_c), of several labels (n - n_c) / n_c; or as the recipe says, 1 where it says nothing."""
    said, labels = recipe.train.class_weights, prepared.vocabularies.labels
    if said is None:
        return None
    if said == "balanced":
        shown = [weight * counts_of([store], len(labels)) for store, weight in _weighted(prepared)]
        counts = torch.from_numpy(np.sum(shown, axis=0)).float().clamp(min=1)
        texts = sum(weight * len(store) for store, weight in _weighted(prepared))
        if _model(recipe).labels == "several":
            return (texts - counts).clamp(min=1) / counts
        return texts / (len(labels) * counts)
    unknown = next((label for label in said if label not in labels), None)
    if unknown is not None:
        raise UserError(
            f"`train.class_weights` names `{unknown}`, but no training text has that label."
            f"{suggestion(unknown, labels)}"
        )
    return torch.tensor([said.get(label, 1.0) for label in labels])


def _weighted(prepared: Prepared) -> Iterator[tuple[TokenStore, float]]:
    """The training stores, and how often an epoch shows each."""
    return zip(prepared.train, prepared.weights, strict=True)


def _listed(prepared: Prepared) -> str:
    """The classes and how many training texts have them, the first ten."""
    counts = counts_of(prepared.train, len(prepared.vocabularies.labels))
    listed = [f"{label} ({count:,})" for label, count in zip(prepared.vocabularies.labels, counts, strict=True)]
    return ", ".join(listed[:10]) + (", ..." if len(listed) > 10 else "")
