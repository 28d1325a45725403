"""Measures the memory of a training step: weights, gradients, optimizer state, and saved activations.

On a CPU nothing is computed: torch runs the model on fake tensors, so that a model which does not fit can be measured
too. On a GPU the forward pass runs; if it runs out of memory, only that is known. In both cases every tensor saved for
the backward pass is counted, each storage once. Temporary memory, such as the inputs of one operation, comes on top.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from heedful.config.model.mixed import PairModel
from heedful.config.model.transformer import TransformerModel
from heedful.data.batches.pairs import PairBatch, PairFeed, pair_costs
from heedful.data.epochs.plan import Indices
from heedful.models.build.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.packed import Layout, Packed
from heedful.training.objectives import NextToken

_BYTES: Final = 4  # of a weight and of its gradient, both float32
_MOMENTS: Final = 2  # that Adam keeps for every weight


@dataclass(frozen=True)
class LargestBatch:
    """The micro-batch with the most tokens."""

    sentences: int
    source_tokens: int
    target_tokens: int
    longest: int  # length of its longest sentence on either side, in tokens


@dataclass(frozen=True)
class Memory:
    """Bytes that a training step holds at the end of its forward pass."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int | None  # None if the forward pass ran out of memory
    batch: LargestBatch
    available: int | None  # on the device; None if unknown

    @property
    def total(self) -> int | None:
        """The sum of all four; None if the forward pass ran out of memory."""
        if self.activations is None:
            return None
        return self.parameters + self.gradients + self.optimizer + self.activations

    @property
    def fits(self) -> bool:
        """Whether this fits on the device, as far as is known."""
        return self.total is not None and (self.available is None or self.total < self.available)


def measure_memory(
    config: PairModel,
    sizes: tuple[int, int],
    feed: PairFeed,
    smoothing: float,
    device: torch.device,
    precision: torch.dtype,
) -> Memory:
    """Measure the largest micro-batch of the first epoch; `sizes` are the vocabulary sizes."""
    indices = largest_batch(feed)
    batch = feed.placed(feed.static, pin=False).batch(indices)
    with torch.device("meta"):  # weights can be counted even if they do not fit
        weights = _BYTES * sum(p.numel() for p in build_model(config, *sizes).parameters())
    try:
        activations = _activations(config, sizes, batch, smoothing, device, precision)
    except torch.OutOfMemoryError:
        activations = None
    longest = max(int(cost[indices].max()) for cost in pair_costs(feed.stores))
    shape = LargestBatch(batch.sentences, batch.source_tokens, batch.target_tokens, longest)
    return Memory(weights, weights, _MOMENTS * weights, activations, shape, _available(device))


def _activations(
    config: PairModel,
    sizes: tuple[int, int],
    batch: PairBatch,
    smoothing: float,
    device: torch.device,
    precision: torch.dtype,
) -> int:
    with _fake_mode(config, device) as mode:
        with device:
            model = build_model(config, *sizes)
        set_precision(model, precision)
        placed = batch.to(device) if mode is None else _fake_batch(batch, mode)
        return saved_bytes(model, placed, smoothing)


def largest_batch(feed: PairFeed) -> Indices:
    """Return the first epoch's micro-batch with the most tokens; among equals, the one with the longest sentence."""
    source, target = pair_costs(feed.stores)
    both = source.astype(np.int64) + target
    return max(feed.plan(0), key=lambda indices: (int(both[indices].sum()), int(both[indices].max())))


def saved_bytes(model: EncoderDecoder, batch: PairBatch, smoothing: float) -> int:
    """Count the bytes that a forward pass saves for the backward pass, each storage once, without the weights."""
    owned = {_storage(tensor) for tensor in (*model.parameters(), *model.buffers())}
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if _storage(tensor) not in owned:
            saved[_storage(tensor)] = tensor.untyped_storage().nbytes()
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        tally = NextToken(smoothing)(model, batch)
    del tally  # it kept every storage alive until here, so that none was reused
    return sum(saved.values())


def _storage(tensor: Tensor) -> int:
    """Return the identity of a storage; fake tensors have no address."""
    return tensor.untyped_storage()._cdata


@contextmanager
def _fake_mode(config: PairModel, device: torch.device) -> Iterator[FakeTensorMode | None]:
    """Use fake tensors if the model allows it: recurrent models need the values of sentence lengths."""
    possible = device.type == "cpu" and isinstance(config, TransformerModel)
    with FakeTensorMode() if possible else nullcontext() as mode:
        yield mode


def _fake_batch(batch: PairBatch, mode: FakeTensorMode) -> PairBatch:
    def packed(side: Packed) -> Packed:
        layout = side.layout
        bare = Layout(mode.from_tensor(layout.offsets), mode.from_tensor(layout.positions), layout.bound)
        return Packed(mode.from_tensor(side.values), bare)

    return replace(
        batch, source=packed(batch.source), target=packed(batch.target), labels=mode.from_tensor(batch.labels)
    )


def _available(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not available on every system
        return None
