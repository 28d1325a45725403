"""The computation of an update: gradients summed over micro-batches, then one step of the optimizer.

With a fused optimizer nothing here waits for the device, so that a GPU is never idle; `training.captured_updates` does
the same with CUDA graphs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from heedful.training.objectives import Objective, Sums
from heedful.training.optimizers.build import scales_gradients
from heedful.training.optimizers.moving_average import MovingAverage


class Batch(Protocol):
    """What the training loop needs of a batch, whatever it contains."""

    def to(self, device: torch.device, non_blocking: bool = False) -> Self:
        """Copy to a device."""
        ...

    def copy_(self, other: Self) -> None:
        """Copy the values of another batch of the same shape into this one."""
        ...

    def forget(self) -> None:
        """Drop cached values that were computed from the batch."""
        ...


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


class UpdateComputation(Protocol[GivenBatch]):
    """Computes one update after the other."""

    def add(self, batch: GivenBatch, first: bool) -> Sums:
        """Add the gradients of a micro-batch; the `first` one of an update replaces those of the previous update.

        The returned sums have no gradients, are on the device, and must be read before the next call.
        """
        ...

    def step(self, units: int, rate: float) -> Tensor:
        """Divide the gradients by the units, clip, and step if they are finite; return their norm before clipping."""
        ...


# Makes the computation of a run from the loss of a batch, the optimizer, the norm to clip at, and the device.
UpdateComputationFactory = Callable[
    [BatchLoss[BatchType], torch.optim.Optimizer, float | None, torch.device], UpdateComputation[BatchType]
]


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
        self.average = MovingAverage(optimizer)

    def add(self, batch: BatchType, first: bool) -> Sums:
        """Run the forward and backward pass."""
        return self.differentiate(batch.to(self._device, non_blocking=True))

    def step(self, units: int, rate: float) -> Tensor:
        """Step the optimizer, and free the gradients."""
        norm = self.apply(torch.full((), float(units), device=self._device), rate)
        self._optimizer.zero_grad()
        return norm

    def differentiate(self, batch: BatchType) -> Sums:
        """Add the gradients of a batch that is on the device."""
        sums = self._batch_loss(batch)
        sums.loss.backward()
        return Sums(sums.loss.detach(), sums.likelihood.detach())

    def apply(self, units: Tensor, rate: float | Tensor) -> Tensor:
        """Step the optimizer with the summed gradients."""
        norm = torch.nn.utils.get_total_norm(p.grad for p in self._parameters if p.grad is not None) / units
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
