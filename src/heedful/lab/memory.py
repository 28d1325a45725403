"""How much memory a step of training holds: weights, gradients, optimizer, and what the forward pass keeps.

On a CPU nothing is computed for it: torch runs the model on tensors without values, so that a model which does not fit
can be measured too. On a GPU the forward pass runs, and where it does not fit only that is known. Either way every
tensor that is saved for the backward pass is counted, each storage once. What is needed for moments only, such as the
inputs of one operation, comes on top.
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
from heedful.data.batches.pairs import PairBatch
from heedful.data.epochs.loader import PairFeed, pair_costs
from heedful.data.epochs.plan import Indices
from heedful.models.build.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.packed import Layout, Packed
from heedful.training.objectives import NextToken

_BYTES: Final = 4  # of a weight, and of its gradient: both are float32
_MOMENTS: Final = 2  # that Adam keeps of every weight


@dataclass(frozen=True)
class LargestBatch:
    """The micro-batch with most tokens."""

    sentences: int
    source_tokens: int
    target_tokens: int
    longest: int  # tokens of its longest sentence, on either side


@dataclass(frozen=True)
class Memory:
    """Bytes that a step of training holds at the end of its forward pass."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int | None  # None where the forward pass found too little memory
    batch: LargestBatch
    available: int | None  # on the device; None where it cannot be known

    @property
    def total(self) -> int | None:
        """All of it."""
        if self.activations is None:
            return None
        return self.parameters + self.gradients + self.optimizer + self.activations

    @property
    def fits(self) -> bool:
        """Whether the device has room for it, as far as that can be known."""
        return self.total is not None and (self.available is None or self.total < self.available)


def measure_memory(
    config: PairModel,
    sizes: tuple[int, int],
    feed: PairFeed,
    smoothing: float,
    device: torch.device,
    precision: torch.dtype,
) -> Memory:
    """Measure the largest micro-batch of the first epoch; `sizes` are those of the vocabularies."""
    indices = largest_batch(feed)
    made = replace(feed, pin=False).batch(indices)
    with torch.device("meta"):  # they can be counted where they do not fit
        weights = _BYTES * sum(p.numel() for p in build_model(config, *sizes).parameters())
    try:
        activations = _activations(config, sizes, made, smoothing, device, precision)
    except torch.OutOfMemoryError:
        activations = None
    longest = max(int(cost[indices].max()) for cost in pair_costs(feed.stores))
    shape = LargestBatch(made.sentences, made.source_tokens, made.target_tokens, longest)
    return Memory(weights, weights, _MOMENTS * weights, activations, shape, _available(device))


def _activations(
    config: PairModel,
    sizes: tuple[int, int],
    made: PairBatch,
    smoothing: float,
    device: torch.device,
    precision: torch.dtype,
) -> int:
    with _without_values(config, device) as mode:
        with device:
            model = build_model(config, *sizes)
        set_precision(model, precision)
        batch = made.to(device) if mode is None else _valueless(made, mode)
        return saved_bytes(model, batch, smoothing)


def largest_batch(feed: PairFeed) -> Indices:
    """The first epoch's micro-batch with most tokens; of equals, the one with the longest sentence."""
    source, target = pair_costs(feed.stores)
    both = source.astype(np.int64) + target
    return max(feed.plan(0), key=lambda indices: (int(both[indices].sum()), int(both[indices].max())))


def saved_bytes(model: EncoderDecoder, batch: PairBatch, smoothing: float) -> int:
    """What a forward pass saves for the backward pass, each storage once, the model's own weights not counted."""
    owned = {_storage(tensor) for tensor in (*model.parameters(), *model.buffers())}
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if _storage(tensor) not in owned:
            saved[_storage(tensor)] = tensor.untyped_storage().nbytes()
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        tally = NextToken(smoothing)(model, batch)
    del tally  # until here it held every storage, so that none took the place of another
    return sum(saved.values())


def _storage(tensor: Tensor) -> int:
    """A storage's identity; a tensor without values has no address."""
    return tensor.untyped_storage()._cdata


@contextmanager
def _without_values(config: PairModel, device: torch.device) -> Iterator[FakeTensorMode | None]:
    """Where nothing asks for values: recurrence asks how long sentences are."""
    possible = device.type == "cpu" and isinstance(config, TransformerModel)
    with FakeTensorMode() if possible else nullcontext() as mode:
        yield mode


def _valueless(batch: PairBatch, mode: FakeTensorMode) -> PairBatch:
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
    except (ValueError, OSError, AttributeError):  # not every system tells
        return None
