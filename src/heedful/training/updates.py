"""The computation of an update: gradients summed over micro-batches, then one step of the optimizer.

With a fused optimizer nothing here waits for the device, so that a GPU is never idle.

Captured updates come from CUDA graphs: the launches of a step are recorded once and replayed as one. A step of a small
model is thousands of launches, which take the host longer than the GPU. With batches of one static shape, every step
makes the same launches on the same addresses: a new batch is copied over the recorded one. Random numbers follow
torch's generator at each replay, so seeding before a micro-batch works as it does without a graph.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from heedful.nn.cuda_graphs import record, warm_up
from heedful.training.objectives import Objective, StatefulObjective, Sums
from heedful.training.optimizers.build import scales_gradients
from heedful.training.optimizers.moving_average import MovingAverage


class Batch(Protocol):
    """What the training loop needs of a batch, whatever it contains."""

    def to(self, device: torch.device, non_blocking: bool = False) -> Self:
        """Copy to a device."""

    def copy_(self, other: Self) -> None:
        """Copy the values of another batch of the same shape into this one."""

    def forget(self) -> None:
        """Drop cached values that were computed from the batch."""


BatchType = TypeVar("BatchType", bound=Batch)
GivenBatch = TypeVar("GivenBatch", bound=Batch, contravariant=True)
BatchLoss = Callable[[BatchType], Sums]


@dataclass(frozen=True, eq=False)
class ModelLoss(Generic[GivenBatch]):
    """The loss of a model on a batch, by an objective."""

    objective: Objective[GivenBatch]
    model: nn.Module

    def __call__(self, batch: GivenBatch) -> Sums:
        """Return the sums over the batch."""
        return self.objective(self.model, batch)


class EagerUpdates(Generic[BatchType]):
    """Computes updates eagerly, operation by operation."""

    def __init__(
        self,
        batch_loss: BatchLoss[BatchType],
        optimizer: torch.optim.Optimizer,
        clip_norm: float | None,
        device: torch.device,
    ) -> None:
        self._batch_loss, self._optimizer, self._clip_norm, self._device = batch_loss, optimizer, clip_norm, device
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._loss = torch.zeros((), dtype=torch.float64, device=device)  # of the update; recorded passes write it too
        self.average = MovingAverage(optimizer)

    def add(self, batch: BatchType, first: bool) -> Sums:
        """Add the gradients of a micro-batch; the `first` one of an update replaces those of the previous update.

        The returned sums have no gradients, are on the device, and must be read before the next call.
        """
        return self.differentiate(batch.to(self._device, non_blocking=True), first)

    def step(self, units: int, rate: float) -> Tensor:
        """Divide the gradients by the units, clip, and step if they are finite; return their norm before clipping.

        The norm is not finite if the loss is not.
        """
        norm = self.apply(torch.full((), float(units), device=self._device), rate)
        self._optimizer.zero_grad()
        return norm

    def differentiate(self, batch: BatchType, first: bool = True) -> Sums:
        """Add the gradients of a batch that is on the device."""
        sums = self._batch_loss(batch)
        sums.loss.backward()
        loss = sums.loss.detach()
        self._loss.copy_(loss) if first else self._loss.add_(loss)
        return Sums(loss, sums.likelihood.detach())

    def apply(self, units: Tensor, rate: float | Tensor) -> Tensor:
        """Step the optimizer with the summed gradients."""
        norm = torch.nn.utils.get_total_norm(p.grad for p in self._parameters if p.grad is not None) / units
        norm = norm + (0 * self._loss).to(norm.dtype)  # NaN where the loss is not finite, and otherwise the norm itself
        finite = norm.isfinite()
        scale = units if self._clip_norm is None else units * (norm / self._clip_norm).clamp(min=1)
        for group in self._optimizer.param_groups:
            group["lr"] = rate * group.get("rate_scale", 1.0)
        if scales_gradients(self._optimizer):
            self._optimizer.grad_scale = torch.where(finite, scale, 1).float()  # type: ignore[attr-defined]
            self._optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
            self._optimizer.step()
        elif finite:  # which waits for the device
            torch._foreach_div_([p.grad for p in self._parameters if p.grad is not None], scale)
            self._optimizer.step()
        self.average.follow()
        return norm


# Makes the computation of a run from the loss of a batch, the optimizer, the norm to clip at, and the device.
UpdateComputationFactory = Callable[
    [BatchLoss[BatchType], torch.optim.Optimizer, float | None, torch.device], EagerUpdates[BatchType]
]


class CapturedUpdates(EagerUpdates[BatchType]):
    """Computes what `EagerUpdates` computes, from recordings. Every batch must have the shape of the first one.

    Gradients stay at their recorded addresses: no other code may set them to None.
    """

    def __init__(
        self,
        batch_loss: BatchLoss[BatchType],
        optimizer: torch.optim.Optimizer,
        clip_norm: float | None,
        device: torch.device,
    ) -> None:
        super().__init__(batch_loss, optimizer, clip_norm, device)
        self._pool, self._stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)
        self._batch: BatchType | None = None
        self._passes: dict[bool, tuple[torch.cuda.CUDAGraph, Sums]] = {}  # True: of the first micro-batch of an update
        self._stepping: tuple[torch.cuda.CUDAGraph, Tensor] | None = None
        self._stepped = False
        self._units, self._rate = torch.ones((), device=device), torch.zeros((), device=device)
        self._records_steps = scales_gradients(optimizer)  # others decide on the host whether to step
        for group in optimizer.param_groups if self._records_steps else ():
            group["capturable"] = True

    def add(self, batch: BatchType, first: bool) -> Sums:
        """Replay the forward and backward pass on this batch."""
        if self._batch is None:
            self._batch = batch.to(self._device)
            self._warm_up(self._batch)
        else:
            self._batch.copy_(batch)
        if first not in self._passes:
            self._passes[first] = self._record_pass(self._batch, first)
        graph, sums = self._passes[first]
        graph.replay()
        return sums

    def step(self, units: int, rate: float) -> Tensor:
        """Replay the optimizer's step. The first one is computed without a graph, because it creates the state."""
        self._units.fill_(units)
        if not self._records_steps:
            return self.apply(self._units, rate)
        self._rate.fill_(rate)
        if not self._stepped:
            self._stepped = True
            return self.apply(self._units, self._rate)
        if self._stepping is None:
            self._stepping = record(lambda: self.apply(self._units, self._rate), self._stream, self._pool)
        graph, norm = self._stepping
        graph.replay()
        return norm

    def _warm_up(self, batch: BatchType) -> None:
        """Compute without keeping gradients, moving the random generator or changing what an objective carries."""

        def run_without_gradients() -> None:
            self.differentiate(batch)
            self._optimizer.zero_grad()

        generator = torch.cuda.get_rng_state(self._device)
        objective = getattr(self._batch_loss, "objective", None)
        carried = objective.state_dict() if isinstance(objective, StatefulObjective) else {}
        warm_up(run_without_gradients, self._stream)
        if carried and isinstance(objective, StatefulObjective):  # without it, all rows of the first batch are fresh
            objective.load_state_dict(carried)
        torch.cuda.set_rng_state(generator, self._device)

    def _record_pass(self, batch: BatchType, first: bool) -> tuple[torch.cuda.CUDAGraph, Sums]:
        """Record the forward and backward pass. For the first micro-batch of an update, every replay writes new
        gradients; for the others, it adds to them."""
        if first:
            self._optimizer.zero_grad()
        batch.forget()  # cached values are not recorded: replays would use those of the first batch
        return record(lambda: self.differentiate(batch, first), self._stream, self._pool)
