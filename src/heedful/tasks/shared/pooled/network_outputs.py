"""Batches of texts, pairs, documents and images, and what a network with one output for each predicts for them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.config.model.encoders import HierarchicalEncoderTable
from heedful.config.model.images import ImageAnswererModel
from heedful.config.model.pooled import ImageModel, TextModel
from heedful.config.recipe import Recipe
from heedful.data.batches.images import ImageCollator, ImageQuestionCollator
from heedful.data.batches.texts import DocumentCollator, PairedTextCollator, TextCollator
from heedful.data.collate import CPU_MULTIPLE, places_of
from heedful.data.epochs.loader import Collator
from heedful.data.epochs.plan import Indices, batches_by_length
from heedful.data.token_store import TokenStore


def collator_of(recipe: Recipe, classes: int) -> Collator[Any]:
    """Return the collator of a model's texts, pairs, documents, images or questions; `classes` is how many it knows."""
    table, data = recipe.model, recipe.data
    several = classes if getattr(table, "labels", "one") == "several" else 0
    if isinstance(table, ImageModel | ImageAnswererModel):
        images = ImageCollator(table.encoder.patch, table.encoder.class_token, several)
        return images if isinstance(table, ImageModel) else ImageQuestionCollator(images, data.max_length, classes)
    assert isinstance(table, TextModel), f"{table.family} has several outputs for a text"
    if isinstance(table.encoder, HierarchicalEncoderTable):
        letters = table.encoder.letters is not None
        return DocumentCollator(data.max_length, table.encoder.max_sentence, data.cut, several, letters)
    if table.joins_after_reading:
        return PairedTextCollator(data.max_length, data.cut, several)
    return TextCollator(data.max_length, data.cut, data.paired, several)


@torch.inference_mode()
def outputs_of_rows(
    network: nn.Module,
    collator: Collator[Any],
    stores: Sequence[TokenStore],
    rows: Indices,
    batch_tokens: int,
    counts: Indices | None = None,
    advance: Callable[[int], None] = lambda finished: None,
) -> Tensor:
    """Return what a network in `eval` mode predicts for rows of stores, in their order; `advance` counts them.

    A row has one output, or as many as `counts` says: a row of questions about an image has one for each question.
    """
    counts = np.ones_like(rows) if counts is None else counts
    starts, device = np.cumsum(counts) - counts, next(network.parameters()).device
    found = torch.empty(0)
    for indices in batches_by_length(collator.costs(stores, rows), batch_tokens=batch_tokens):
        batch = collator.batch(stores, rows[indices], multiple=CPU_MULTIPLE)
        outputs = network(batch.to(device).inputs)[: batch.sentences].float().cpu()
        if not len(found):
            found = torch.empty(int(counts.sum()), *outputs.shape[1:])
        found[torch.from_numpy(places_of(starts[indices], counts[indices]))] = outputs
        advance(len(outputs))
    return found
