"""Buffers of one shape, the step that is recorded on them, and the sentences that pass through.

Every slot has its own position, so that the batch stays full until the last sentences. The host reads which slots are
done one step late, so that the device never waits.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, cast

import torch
from torch import Tensor

from heedful.base.packed import Packed
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query, pack_prompts
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.beam import BeamInSlots
from heedful.decode.slots.frontier import SlotFrontier
from heedful.decode.slots.greedy import GreedyInSlots, SamplingInSlots
from heedful.models.protocols import Generator
from heedful.models.transformer.slots import SlotDecoder, SlotShape
from heedful.nn.cuda_graphs import as_cuda_graph

_AT_ONCE: Final = 4  # steps in a recording of few rows: launching one takes longer than computing it
_FEW: Final = 64  # rows
_SHARE: Final = 8  # sentences are admitted when 1 / 8 of the slots are free


class SlotRunner:
    """Buffers of one shape, and the step that is recorded on them."""

    def __init__(self, model: Generator, shape: SlotShape, settings: SearchSettings, prefixed: bool = False) -> None:
        weight, self._decoder = model.decoder.output.weight, cast(SlotDecoder, model.decoder)
        self._device, self._count = weight.device, shape.slots
        decoder = self._decoder
        self._slots = slots = decoder.slots(shape)
        searching = BeamInSlots if settings.beam > 1 else GreedyInSlots
        kind: type[SlotFrontier] = searching if settings.sampling is None else SamplingInSlots
        self._frontier = frontier = kind(slots, settings, weight.shape[0], prefixed)
        at_once = _AT_ONCE if shape.slots * shape.beams <= _FEW else 1

        def step() -> None:
            for _ in range(at_once):  # a slot that is done in between does not change
                frontier.grow(decoder.step_slots(frontier.last_R, slots))

        self._step = as_cuda_graph(step, self._device)
        self.bytes = slots.cache.nbytes + slots.memory.nbytes

    def run(
        self, queries: Sequence[Query], memory: Packed | None, settings: SearchSettings
    ) -> Iterator[tuple[list[int], list[list[Hypothesis]]]]:
        """Decode all sentences, given their memories, or continue their sources where there is no memory.

        Yield the indices of some and what was found for them. The settings are equal to those that this was made
        for, but for the seed of sampling.
        """
        self._frontier.constraints.renew(settings)
        seed = settings.sampling.seed if settings.sampling else 0
        if memory is not None:
            self._decoder.remember(memory, self._slots)
        waiting, free = deque(range(len(queries))), list(range(self._count))
        held: dict[int, int] = {}  # slot: sentence
        since: dict[int, int] = {}  # slot: the first launch that it took part in
        batch = max(1, self._count // _SHARE)
        watch, launches = _Watch(self._frontier.done_S), 0
        while waiting or held:
            if waiting and (len(free) >= batch or not held):
                slots = [free.pop() for _ in range(min(len(free), len(waiting)))]
                chosen = [waiting.popleft() for _ in slots]
                held.update(zip(slots, chosen, strict=True))
                since.update(dict.fromkeys(slots, launches))
                indices, admitted = self._tensor(slots), [queries[i] for i in chosen]
                if memory is not None:
                    mine, layout = self._tensor(chosen), memory.layout
                    self._slots.admit(indices, layout.offsets[mine], layout.lengths[mine])
                    self._frontier.admit(indices, admitted, None, seed)
                else:
                    prompts, firsts = pack_prompts(admitted)
                    self._frontier.admit(indices, admitted, firsts, seed)
                    self._decoder.read_prompts(prompts.to(self._device), self._slots, indices)
            self._step()
            watch.look(launches)
            launches += 1
            seen, done = watch.before()
            ready = [slot for slot in held if since[slot] <= seen and done[slot]]
            if len(ready) == len(held) or (waiting and len(ready) >= batch):
                yield [held.pop(slot) for slot in ready], self._frontier.hypotheses(self._tensor(ready))
                free += ready

    def _tensor(self, numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self._device)


class _Watch:
    """Reads flags on the device without waiting for the current step: it sees those of the step before."""

    def __init__(self, flags: Tensor) -> None:
        self._flags, self._cuda = flags, flags.is_cuda
        self._copies = [torch.zeros(flags.shape, dtype=torch.bool, pin_memory=self._cuda) for _ in range(2)]
        self._events = [torch.cuda.Event() for _ in range(2)] if self._cuda else []
        self._step = -1

    def look(self, step: int) -> None:
        """Fetch the flags of a step that was just launched."""
        self._step = step
        self._copies[step % 2].copy_(self._flags, non_blocking=True)
        if self._cuda:
            self._events[step % 2].record()

    def before(self) -> tuple[int, list[bool]]:
        """Return the number of the step before that, and its flags; -1 and no flag set if there is none."""
        before = self._step - 1
        if before < 0:
            return before, [False] * len(self._flags)
        if self._cuda:
            self._events[before % 2].synchronize()
        flags: list[bool] = self._copies[before % 2].tolist()
        return before, flags
