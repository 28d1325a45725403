"""Scores of a classifier for texts in token stores."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from heedful.config.model.encoder_only import ClassifierModel
from heedful.config.model.encoders import HierarchicalEncoderTable
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.data.batch_layout import CPU_MULTIPLE
from heedful.data.batches.documents import DocumentCollator
from heedful.data.batches.text_pairs import PairedTextCollator
from heedful.data.batches.texts import AnyTextCollator, TextCollator
from heedful.data.epochs.plan import batches_by_length
from heedful.data.token_store import TokenStore
from heedful.metrics.classification import class_scores
from heedful.models.bundle import Bundle
from heedful.models.networks import Classifier


def scores_of(
    bundle: Bundle[Classifier],
    stores: tuple[TokenStore, ...],
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    advance: Callable[[int], None] = lambda finished: None,
) -> Tensor:
    """Return the scores of every class for texts, in the order of the rows; `advance` counts finished texts."""
    recipe = bundle.recipe
    collator = collator_of(recipe, len(bundle.vocabularies.labels))
    plan = batches_by_length(collator.costs(stores, rows), batch_tokens=recipe.data.batch_tokens)
    batches = (collator.batch(stores, rows[indices], multiple=CPU_MULTIPLE) for indices in plan)
    scores_BC = torch.empty(len(rows), len(bundle.vocabularies.labels))
    for indices, scored in zip(plan, class_scores(bundle.model, batches), strict=True):
        scores_BC[indices] = scored
        advance(len(indices))
    return scores_BC


def collator_of(recipe: Recipe, classes: int) -> AnyTextCollator:
    """Return the collator that makes the model's input from the recipe's texts."""
    data, model = recipe.data, model_of(recipe, ClassifierModel)
    several = classes if model.labels == "several" else 0
    if isinstance(model.encoder, HierarchicalEncoderTable):
        letters = model.encoder.letters is not None
        return DocumentCollator(data.max_length, model.encoder.max_sentence, data.cut, several, letters)
    if model.joins_after_reading:
        return PairedTextCollator(data.max_length, data.cut, several)
    return TextCollator(data.max_length, data.cut, data.paired, several)
