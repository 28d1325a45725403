"""Windows of running text for evaluation: each token predicted once, with as much text before it as wanted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.base.packed import IGNORED
from heedful.data.batches.windows import Borders, PlannedWindows, WindowBatch, collate_windows, text_bounds
from heedful.data.collate import places_of
from heedful.data.epochs.plan import Indices, batches_by_length
from heedful.data.token_store import TokenStore


@dataclass(frozen=True, eq=False)
class SlidingWindows:
    """Windows of `length` tokens that begin every `stride` tokens of a text.

    The first window of a text predicts all of its tokens, the others those that no window before them predicted.
    """

    stores: Sequence[TokenStore]
    length: int
    stride: int
    borders: Borders
    batch_tokens: int
    multiple: int = 1

    def plan(self) -> list[PlannedWindows]:
        """Return all windows in batches of similar length."""
        cut = [self._cut(store) for store in self.stores]
        owners = np.repeat(np.arange(len(cut)), [len(begins) for begins, _ in cut])
        begins, lengths = (np.concatenate([part[side] for part in cut]) for side in (0, 1))
        return [
            PlannedWindows(owners[rows], begins[rows], lengths[rows])
            for rows in batches_by_length((lengths,), batch_tokens=self.batch_tokens)
        ]

    def batch(self, planned: PlannedWindows) -> WindowBatch:
        """Make one batch, in which a token that another window predicts has no label."""
        made = collate_windows(self.stores, planned, multiple=self.multiple)
        if self.stride == self.length:
            return made
        repeated = np.where(self._continues(planned), np.minimum(self.length - self.stride, planned.lengths), 0)
        starts = np.cumsum(planned.lengths) - planned.lengths
        made.labels[torch.from_numpy(places_of(starts, repeated))] = IGNORED
        return WindowBatch(made.inputs, made.labels, made.sentences, int((made.labels != IGNORED).sum()))

    def _cut(self, store: TokenStore) -> tuple[Indices, Indices]:
        starts, ends = text_bounds(store, self.borders)
        predicted = ends - starts - 1
        counts = np.where(predicted > 0, 1 + -(-np.maximum(predicted - self.length, 0) // self.stride), 0)
        begins = np.repeat(starts, counts) + places_of(np.zeros(len(counts), np.int64), counts) * self.stride
        return begins, np.minimum(self.length, np.repeat(ends, counts) - 1 - begins)

    def _continues(self, planned: PlannedWindows) -> NDArray[np.bool_]:
        """Return which windows are not the first of their text."""
        later = np.ones(len(planned.begins), np.bool_)
        for number, store in enumerate(self.stores):
            mine = planned.stores == number
            later[mine] = ~np.isin(planned.begins[mine], text_bounds(store, self.borders)[0])
        return later
