"""Scores of all answers to questions about images in stores."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from heedful.config.model.images import ImageAnswererModel
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.data.collate import lengths_of
from heedful.data.epochs.plan import Indices, batches_by_length
from heedful.data.images.batches import ImageCollator
from heedful.data.images.questions.batches import ImageQuestionCollator
from heedful.data.token_store import TokenStore
from heedful.metrics.classification import class_scores
from heedful.models.bundle import Bundle
from heedful.models.images import ImageAnswerer


def scores_of(
    bundle: Bundle[ImageAnswerer],
    stores: Sequence[TokenStore],
    rows: Indices,
    advance: Callable[[int], None] = lambda finished: None,
) -> Tensor:
    """Return the scores of all answers to the questions about some images, in order; `advance` counts questions."""
    answers = len(bundle.vocabularies.labels)
    collator = collator_of(bundle.recipe, answers)
    plan = batches_by_length(collator.costs(stores, rows), batch_tokens=bundle.recipe.data.batch_tokens)
    batches = (collator.batch(stores, rows[indices]) for indices in plan)
    asked = lengths_of(stores, "lengths", rows)
    starts = np.cumsum(asked) - asked
    scores_QC = torch.empty(int(asked.sum()), answers)
    for indices, scored in zip(plan, class_scores(bundle.model, batches), strict=True):
        places = np.concatenate([np.arange(starts[row], starts[row] + asked[row]) for row in indices])
        scores_QC[torch.from_numpy(places)] = scored
        advance(len(places))
    return scores_QC


def collator_of(recipe: Recipe, answers: int) -> ImageQuestionCollator:
    """Return the collator that makes the input of a model with this number of answers."""
    encoder = model_of(recipe, ImageAnswererModel).encoder
    return ImageQuestionCollator(ImageCollator(encoder.patch, encoder.class_token), recipe.data.max_length, answers)
