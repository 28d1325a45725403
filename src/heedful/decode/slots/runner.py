"""Buffers of one shape, the step that is recorded on them, and the sentences that pass through.

Every slot stands at its own position, so that the batch stays full until the last sentences. The device is asked who is
done one step behind: it never waits.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, cast

import torch
from torch import Tensor

from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.beam import BeamInSlots
from heedful.decode.slots.frontier import SlotFrontier
from heedful.decode.slots.greedy import GreedyInSlots
from heedful.models.networks import EncoderDecoder
from heedful.models.transformer.slots import SlotDecoder, SlotShape
from heedful.nn.cuda_graphs import as_cuda_graph
from heedful.packed import Packed

_AT_ONCE: Final = 4  # steps in a recording of few rows: the host takes longer to launch one than the GPU to compute it
_FEW: Final = 64  # rows
_SHARE: Final = 8  # a part of the slots, one in so many, is awaited before others are admitted to them


class SlotRunner:
    """Buffers of one shape, and the step that is recorded on them."""

    def __init__(self, model: EncoderDecoder, shape: SlotShape, settings: SearchSettings) -> None:
        weight, self._decoder = model.decoder.output.weight, cast(SlotDecoder, model.decoder)
        self._device, self._count = weight.device, shape.slots
        self._slots = slots = self._decoder.slots(shape)
        kind: type[BeamInSlots] | type[GreedyInSlots] = BeamInSlots if settings.beam > 1 else GreedyInSlots
        self._growth: SlotFrontier
        self._growth = growth = kind(slots, settings, weight.shape[0])
        decoder = self._decoder

        at_once = _AT_ONCE if shape.slots * shape.beams <= _FEW else 1

        def step() -> None:
            for _ in range(at_once):  # a slot that is done in between stands still
                growth.grow(decoder.step_slots(growth.last_R, slots))

        self._step = as_cuda_graph(step, self._device)
        self.bytes = slots.cache.nbytes + slots.memory.nbytes

    def run(self, sentences: Sequence[Query], memory: Packed) -> Iterator[tuple[list[int], list[list[Hypothesis]]]]:
        """Decode all sentences, given their memories; yields the numbers of some and what was found for them."""
        self._decoder.remember(memory, self._slots)
        places = memory.layout
        waiting, free = deque(range(len(sentences))), list(range(self._count))
        held: dict[int, int] = {}  # slot: sentence
        since: dict[int, int] = {}  # slot: the first launch that it took part in
        batch = max(1, self._count // _SHARE)
        watch, launches = _Watch(self._growth.done_S), 0
        while waiting or held:
            if waiting and (len(free) >= batch or not held):
                slots = [free.pop() for _ in range(min(len(free), len(waiting)))]
                chosen = [waiting.popleft() for _ in slots]
                held.update(zip(slots, chosen, strict=True))
                since.update(dict.fromkeys(slots, launches))
                index = self._tensor(slots)
                mine = self._tensor(chosen)
                self._slots.admit(index, places.offsets[mine], places.lengths[mine])
                self._growth.admit(index, [sentences[i].limit for i in chosen])
            self._step()
            watch.look(launches)
            launches += 1
            seen, done = watch.before()
            ready = [slot for slot in held if since[slot] <= seen and done[slot]]
            if len(ready) == len(held) or (waiting and len(ready) >= batch):
                yield [held.pop(slot) for slot in ready], self._growth.hypotheses(self._tensor(ready))
                free += ready

    def _tensor(self, numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self._device)


class _Watch:
    """Looks at flags on the device without waiting for what is under way: it sees those of the step before."""

    def __init__(self, flags: Tensor) -> None:
        self._flags, self._cuda = flags, flags.is_cuda
        self._copies = [torch.zeros(flags.shape, dtype=torch.bool, pin_memory=self._cuda) for _ in range(2)]
        self._events = [torch.cuda.Event() for _ in range(2)] if self._cuda else []
        self._step = -1

    def look(self, step: int) -> None:
        """Fetch the flags of a step that was just begun."""
        self._step = step
        self._copies[step % 2].copy_(self._flags, non_blocking=True)
        if self._cuda:
            self._events[step % 2].record()

    def before(self) -> tuple[int, list[bool]]:
        """The number of the step before that, and its flags; -1 and none set where there is none."""
        before = self._step - 1
        if before < 0:
            return before, [False] * len(self._flags)
        if self._cuda:
            self._events[before % 2].synchronize()
        flags: list[bool] = self._copies[before % 2].tolist()
        return before, flags
