"""Weights of classes in the loss, and the classes in words."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from heedful.base.errors import UserError, suggestion
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.texts import counts_of


def class_weights(
    said: Literal["balanced"] | Mapping[str, float] | None, prepared: Prepared, several: bool, noun: str = "text"
) -> Tensor | None:
    """Return the recipe's class weights, by default 1, or balanced ones.

    balanced: n / (C n_c), or with several labels (n - n_c) / n_c
    """
    labels = prepared.vocabularies.labels
    if said is None:
        return None
    if said == "balanced":
        weighted = [*zip(prepared.train, prepared.weights, strict=True)]
        shown = [weight * counts_of([store], len(labels)) for store, weight in weighted]
        counts = torch.from_numpy(np.sum(shown, axis=0)).float().clamp(min=1)
        rows = sum(weight * len(store) for store, weight in weighted)
        if several:
            return (rows - counts).clamp(min=1) / counts
        return rows / (len(labels) * counts)
    unknown = next((label for label in said if label not in labels), None)
    if unknown is not None:
        raise UserError(
            f"`train.class_weights` names `{unknown}`, but no training {noun} has that label."
            f"{suggestion(unknown, labels)}"
        )
    return torch.tensor([said.get(label, 1.0) for label in labels])


def listed_classes(prepared: Prepared) -> str:
    """Return the number of classes, and the first ten with their numbers of training rows, in words."""
    labels = prepared.vocabularies.labels
    counts = counts_of(prepared.train, len(labels))
    listed = [f"{label} ({count:,})" for label, count in zip(labels, counts, strict=True)]
    return f"{len(labels)} classes: " + ", ".join(listed[:10]) + (", ..." if len(listed) > 10 else "")
