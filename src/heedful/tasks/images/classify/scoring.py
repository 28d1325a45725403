"""Scores of a classifier for images in stores."""

from collections.abc import Callable

import torch
from torch import Tensor

from heedful.config.model.images import ImageClassifierModel
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.data.epochs.plan import Indices, batches_by_length
from heedful.data.images.batches import ImageCollator
from heedful.data.token_store import TokenStore
from heedful.metrics.classification import class_scores
from heedful.models.bundle import Bundle
from heedful.models.networks import Classifier


def scores_of(
    bundle: Bundle[Classifier],
    stores: tuple[TokenStore, ...],
    rows: Indices,
    advance: Callable[[int], None] = lambda finished: None,
) -> Tensor:
    """Return the scores of every class for images, in the order of the rows; `advance` counts finished images."""
    collator = collator_of(bundle.recipe, len(bundle.vocabularies.labels))
    plan = batches_by_length(collator.costs(stores, rows), batch_tokens=bundle.recipe.data.batch_tokens)
    batches = (collator.batch(stores, rows[indices]) for indices in plan)
    scores_BC = torch.empty(len(rows), len(bundle.vocabularies.labels))
    for indices, scored in zip(plan, class_scores(bundle.model, batches), strict=True):
        scores_BC[indices] = scored
        advance(len(indices))
    return scores_BC


def collator_of(recipe: Recipe, classes: int) -> ImageCollator:
    """Return the collator that makes the model's input."""
    model = model_of(recipe, ImageClassifierModel)
    several = classes if model.labels == "several" else 0
    return ImageCollator(model.encoder.patch, model.encoder.class_token, several)
