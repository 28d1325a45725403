"""Measures the memory of a training step: weights, gradients, optimizer state, and saved activations.

On a CPU nothing is computed: torch runs the model on fake tensors, so that a model which does not fit can be measured
too. On a GPU the forward pass runs; if it runs out of memory, only that is known. In both cases every tensor saved for
the backward pass is counted, each storage once. Temporary memory, such as the inputs of one operation, comes on top.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from heedful.config.model.any import AnyModel
from heedful.config.model.encoder_only import BertModel, ReaderModel, TaggerModel
from heedful.config.model.encoders import RecurrentLettersTable, TransformerEncoderTable
from heedful.config.model.pooled import ClassifierModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.data.epochs.loader import TrainingFeed
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.doctor.estimates.plan import PlannedBatch, plan_epoch, side_names
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import set_precision
from heedful.training.objectives import Objective

_BYTES: Final = 4  # of a weight and of its gradient, both float32


@dataclass(frozen=True)
class LargestBatch:
    """The micro-batch with the most tokens."""

    sentences: int
    tokens: Mapping[str, int]  # of each side
    longest: int  # length of its longest sentence on any side, in tokens


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
    recipe: Recipe,
    vocabularies: Vocabularies,
    objective: Objective[Any],
    feed: TrainingFeed[Any],
    device: torch.device,
    precision: torch.dtype,
) -> Memory:
    """Measure the largest micro-batch of the first epoch."""
    largest = largest_batch(feed)
    batch = feed.placed(feed.static, pin=False).batch(largest.planned)
    with torch.device("meta"):  # weights can be counted even if they do not fit
        weights = _BYTES * sum(p.numel() for p in build_network(recipe.model, vocabularies).parameters())
    try:
        with _without_values(recipe.model, device) as (mode, place):
            model = build_network(recipe.model, vocabularies)
            set_precision(model, precision)
            placed = batch.to(place) if mode is None else batch.mapped(mode.from_tensor)
            activations: int | None = saved_bytes(model, placed, objective)
    except torch.OutOfMemoryError:
        activations = None
    tokens = [int(side.sum()) for side in largest.lengths]
    shape = LargestBatch(
        batch.sentences,
        dict(zip(side_names(recipe), tokens, strict=True)),
        max(int(side.max()) for side in largest.lengths),
    )
    kept = recipe.train.optimizer.moments + (recipe.train.moving_average is not None)
    return Memory(weights, weights, kept * weights, activations, shape, _available(device))


def largest_batch(feed: TrainingFeed[Any]) -> PlannedBatch:
    """Return the first epoch's micro-batch with the most tokens; among equals, the one with the longest sentence."""
    return max(plan_epoch(feed), key=lambda batch: batch.size)


def saved_bytes(model: nn.Module, batch: Any, objective: Objective[Any]) -> int:
    """Count the bytes that a forward pass saves for the backward pass, each storage once, without the weights."""
    owned = {_storage(tensor) for tensor in (*model.parameters(), *model.buffers())}
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if _storage(tensor) not in owned:
            saved[_storage(tensor)] = tensor.untyped_storage().nbytes()
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        tally = objective(model, batch)
    del tally  # it kept every storage alive until here, so that none was reused
    return sum(saved.values())


def _storage(tensor: Tensor) -> int:
    """Return the identity of a storage; fake tensors have no address."""
    return tensor.untyped_storage()._cdata


@contextmanager
def _without_values(config: AnyModel, device: torch.device) -> Iterator[tuple[FakeTensorMode | None, torch.device]]:
    """Use fake tensors if the model allows it: recurrent layers need the values of sentence or word lengths.

    Tensors of the objective stay real: the weights of classes. BERT's initial values are drawn until they fit, which
    fake tensors cannot: it is built on a device without values, where operations save a few percent more or less than
    on a CPU.
    """
    encoder, possible = _encoder(config), device.type == "cpu" and not _reads_letters_one_by_one(config)
    fake = possible and isinstance(encoder, TransformerModel | TransformerEncoderTable)
    place = torch.device("meta") if possible and isinstance(encoder, BertModel) else device
    with FakeTensorMode(allow_non_fake_inputs=True) if fake else nullcontext() as mode, place:
        yield mode, place


def _encoder(config: AnyModel) -> object:
    return config.encoder if isinstance(config, ClassifierModel | TaggerModel | ReaderModel) else config


def _reads_letters_one_by_one(config: AnyModel) -> bool:
    return isinstance(config, TaggerModel) and isinstance(config.letters, RecurrentLettersTable)


def _available(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not available on every system
        return None
