"""Batches of texts, pairs, documents and images, and what a network with one output for each predicts for them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.config.data import Data
from heedful.config.model.encoders import HierarchicalEncoderTable
from heedful.config.model.images import AnyImageEncoder
from heedful.config.model.pooled import TextModel
from heedful.data.batch_layout import CPU_MULTIPLE
from heedful.data.batches.documents import DocumentCollator
from heedful.data.batches.images import ImageCollator
from heedful.data.batches.texts import AnyTextCollator, PairedTextCollator, TextCollator
from heedful.data.collate import places_of
from heedful.data.epochs.loader import Collator
from heedful.data.epochs.plan import Indices, batches_by_length
from heedful.data.token_store import TokenStore


def text_collator(model: TextModel, data: Data, classes: int = 0) -> AnyTextCollator:
    """Return the collator of a model's texts, pairs or documents; `classes` is 0 where each has one class."""
    if isinstance(model.encoder, HierarchicalEncoderTable):
        letters = model.encoder.letters is not None
        return DocumentCollator(data.max_length, model.encoder.max_sentence, data.cut, classes, letters)
    if model.joins_after_reading:
        return PairedTextCollator(data.max_length, data.cut, classes)
    return TextCollator(data.max_length, data.cut, data.paired, classes)


def image_collator(encoder: AnyImageEncoder, classes: int = 0) -> ImageCollator:
    """Return the collator of a model's images; `classes` is 0 where each has one class."""
    return ImageCollator(encoder.patch, encoder.class_token, classes)


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
