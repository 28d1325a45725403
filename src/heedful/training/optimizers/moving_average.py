"""A moving average of the weights, which often generalises better than the weights themselves.

    a_t = decay a_(t-1) + (1 - decay) w_t,   a_1 = w_1      Polyak and Juditsky 1992

It is kept in the state of the optimizer, as `average` of each parameter that is trained, so that checkpoints hold it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch
from torch import Tensor

from heedful.training.optimizers.muon import MuonWithAdamW

AVERAGE: Final = "average"  # in the state of a parameter, and the decay in the options of its group


class MovingAverage:
    """The averages of the weights of an optimizer; nothing if its groups have no decay."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._parts = optimizer.parts if isinstance(optimizer, MuonWithAdamW) else (optimizer,)
        decays = {group[AVERAGE] for group in optimizer.param_groups if AVERAGE in group}
        self._share = 1 - decays.pop() if decays else 0.0
        self._pairs: list[tuple[Tensor, Tensor]] = []  # of each parameter, its average and itself

    @torch.no_grad()
    def follow(self) -> None:
        """Move towards the weights after an update; the first one makes the averages."""
        if not self._share:
            return
        if not self._pairs:
            self._pairs = list(self._begin())
        averages, weights = zip(*self._pairs, strict=True)
        torch._foreach_lerp_(averages, weights, self._share)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the weights and their averages, in place."""
        for average, weight in self._pairs or self._known():
            kept = weight.clone()
            weight.copy_(average)
            average.copy_(kept)

    @contextmanager
    def in_place_of_weights(self) -> Iterator[None]:
        """Let the model have the averages inside the block."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    def _begin(self) -> Iterator[tuple[Tensor, Tensor]]:
        for part in self._parts:
            for group in part.param_groups:
                for weight in group["params"]:
                    if weight.grad is not None:
                        state = part.state[weight]
                        state.setdefault(AVERAGE, weight.detach().clone())
                        yield state[AVERAGE], weight

    def _known(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield what a checkpoint has brought."""
        for part in self._parts:
            for weight, state in part.state.items():
                if AVERAGE in state:
                    yield state[AVERAGE], weight
