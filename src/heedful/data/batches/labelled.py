"""Batches of rows to classify or to rate, whatever a row is: inputs, and what is to be predicted for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.packed import IGNORED
from heedful.data.collate import gather, rows_by_store
from heedful.data.epochs.plan import Indices
from heedful.data.movable import Movable
from heedful.data.token_store import TokenStore

Inputs = TypeVar("Inputs")


@dataclass(frozen=True, eq=False)
class LabelledBatch(Movable, Generic[Inputs]):
    """Inputs and their labels; the label IGNORED is one that is not known, or that of a dummy which fills up a batch.

    Labels are the class of each row, or 1 for each of its several classes, or a number, which is never IGNORED but NaN.
    """

    inputs: Inputs  # what a network reads
    labels: Int[Tensor, "B"] | Float[Tensor, "B C"] | Float[Tensor, "B"]
    sentences: int  # the real rows
    tokens: int  # the real ones, markers included

    def labels_of_rows(self) -> list[list[int]]:
        """Return what each real row is to predict: its classes."""
        rows = self.labels[: self.sentences]
        return [row.nonzero().flatten().tolist() if row.dim() else [int(row)] for row in rows]


def labels_of(stores: Sequence[TokenStore], indices: Indices, rows: int, classes: int) -> Tensor:
    """Return the class of each row, or 1 for each of its several `classes`; then IGNORED up to `rows` rows.

    Where stores have numbers, return those.
    """
    if "number" in stores[0].streams:
        return numbers_of(stores, indices, rows)
    if "label" not in stores[0].streams:
        return torch.full((rows,), IGNORED)
    values, lengths = gather(stores, "label", indices)
    if not classes:
        labels = np.full(rows, IGNORED, np.int64)
        labels[: len(indices)] = values
        return torch.from_numpy(labels)
    marks = np.full((rows, classes), IGNORED, np.float32)
    marks[: len(indices)] = 0
    marks[np.repeat(np.arange(len(indices)), lengths), values] = 1
    return torch.from_numpy(marks)


def numbers_of(stores: Sequence[TokenStore], indices: Indices, rows: int) -> Float[Tensor, "rows"]:
    """Return the number of each row; NaN where the stores have none, and up to `rows` rows."""
    numbers = np.full(rows, np.nan, np.float32)
    if "number" in stores[0].streams:
        for store, mine, own in rows_by_store(stores, indices):
            numbers[mine] = store.streams["number"].values[own]  # one per row
    return torch.from_numpy(numbers)
