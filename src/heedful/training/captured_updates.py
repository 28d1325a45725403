"""Updates from CUDA graphs: the launches of a step are recorded once and replayed as one.

A step of a small model is thousands of launches, which take the host longer than the GPU. With batches of one static
shape, every step makes the same launches on the same addresses: a new batch is copied over the recorded one. Random
numbers follow torch's generator at each replay, so seeding before a micro-batch works as it does without a graph.
"""

import torch
from torch import Tensor

from heedful.nn.cuda_graphs import record, warm_up
from heedful.training.objectives import StatefulObjective, Sums
from heedful.training.optimizers.build import scales_gradients
from heedful.training.updates import BatchLoss, BatchType, EagerUpdates


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
        return record(lambda: self.differentiate(batch), self._stream, self._pool)
