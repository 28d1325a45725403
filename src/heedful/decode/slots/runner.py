"""Slots: buffers of one shape, the step that is recorded on them, and the tickets that pass through.

Every slot has its own position, so that tickets are admitted whenever slots are free, and others never wait for them.
The device is always one launch ahead of what the host knows: while a step runs, the host reads which slots were done
after the one before, asks for their results, and takes those that it asked for earlier.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import torch
from torch import Tensor

from heedful.base.errors import UserError
from heedful.decode.query import pack_prompts
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.beam import BeamInSlots
from heedful.decode.slots.encoder import Memories
from heedful.decode.slots.frontier import SlotFrontier
from heedful.decode.slots.greedy import GreedyInSlots, SamplingInSlots
from heedful.decode.ticket import Event, Ticket, by_group
from heedful.models.protocols import Generator
from heedful.models.transformer.slots import SlotDecoder, SlotShape
from heedful.nn.cuda_graphs import as_cuda_graph, on_device

_AT_ONCE: Final = 4  # steps in a recording of few rows: launching one takes longer than computing it
_FEW: Final = 64  # rows
_SHARE: Final = 8  # tickets are admitted, and results fetched, when 1 / 8 of the slots are concerned, or
_PATIENCE: Final = 4  # after this number of launches
_MOST: Final = 8  # steps that are launched in one turn


class SlotRunner:
    """Slots of one shape, for settings that are alike but for what their tickets have in buffers."""

    def __init__(
        self,
        model: Generator,
        shape: SlotShape,
        settings: SearchSettings,
        memories: Memories | None,
        prefixed: bool = False,
    ) -> None:
        weight, self._decoder = model.decoder.output.weight, cast(SlotDecoder, model.decoder)
        self._device, self.shape, self._memories = weight.device, shape, memories
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
        self._times = 1  # how often it is launched in a turn: as often as the host needs for the rest of it
        self.bytes = shape.slots * decoder.slot_bytes(shape)
        self._batch = max(1, shape.slots // _SHARE)
        self._free = list(range(shape.slots))
        self._held: dict[int, Ticket] = {}
        self._since: dict[int, int] = {}  # slot: the first launch that it took part in
        self._ready: dict[int, int] = {}  # slot that is done: the launch after which the host saw it
        self._watch, self._launches = _Watch(frontier.done_S), 0
        self._fetched = deque[_Fetched]()

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._held and not self._fetched

    @property
    def held(self) -> int:
        """Number of tickets in slots."""
        return len(self._held)

    def tickets(self) -> list[Ticket]:
        """Return all tickets that are under way."""
        results = (ticket for fetched in self._fetched if not fetched.drafts for ticket in fetched.tickets)
        return [*self._held.values(), *results]

    def drop(self, cancelled: set[Ticket]) -> None:
        """Free the slots of tickets: others may be admitted there before the next launch."""
        slots = [slot for slot, ticket in self._held.items() if ticket in cancelled]
        if slots:
            self._frontier.done_S[self._tensor(slots)] = True
            for slot in slots:
                self._release(slot)

    def tick(self, waiting: deque[Ticket], events: list[Event]) -> None:
        """Admit tickets that wait, launch, and add the news of what was launched before.

        News are added as they come: those of tickets that were refused are not lost if a launch fails after it.
        """
        free = min(len(self._free), len(waiting))
        if free and free >= min(self._batch, len(waiting)):
            tickets = [waiting.popleft() for _ in range(free)]
            try:
                self._admit_or_refuse(tickets, events)
            except BaseException:  # none is lost
                under_way = set(self._held.values())
                waiting.extendleft(ticket for ticket in reversed(tickets) if not (ticket.done or ticket in under_way))
                raise
        if self._held:
            for _ in range(self._times if waiting else 1):  # the last ones are not delayed
                self._step()
            self._watch.look(self._launches)
            self._launches += 1
            self._look()
        events += self._collect()

    def _admit_or_refuse(self, tickets: list[Ticket], events: list[Event]) -> None:
        """Admit tickets, but for those of calls that ask for what is impossible."""
        slots = [self._free.pop() for _ in tickets]
        try:
            self._admit(tickets, slots)
        except UserError as error:
            self._frontier.done_S[self._tensor(slots)] = True
            self._free += slots
            groups = by_group(tickets)
            if len(groups) == 1:
                events += [ticket.fail(error) for ticket in tickets]
                return
            for some in groups:
                self._admit_or_refuse(some, events)

    def _admit(self, tickets: list[Ticket], slots: list[int]) -> None:
        indices, queries = self._tensor(slots), [ticket.query for ticket in tickets]
        if self._memories is not None:
            first = 0
            for projected, lengths in self._memories.of(queries):
                here = slice(first, first + len(lengths))
                starts = np.repeat(np.array(slots[here]) * self.shape.memory, lengths)
                within = np.concatenate([np.arange(length) for length in lengths])
                places_N = on_device(starts + within, self._device)
                self._slots.remember(projected, places_N, indices[here], self._tensor(lengths))
                first += len(lengths)
            self._frontier.admit(indices, tickets)
        else:
            prompts, firsts = pack_prompts(queries)
            self._frontier.admit(indices, tickets, firsts)
            self._decoder.read_prompts(prompts.to(self._device), self._slots, indices)
        self._held.update(zip(slots, tickets, strict=True))
        self._since.update(dict.fromkeys(slots, self._launches))

    def _look(self) -> None:
        """See which slots were done before the current launch; ask for their results, and for drafts."""
        late = self._watch.late()  # the device has had nothing to do
        self._times = min(_MOST, self._times + 1) if late else max(1, self._times - 1)
        seen, done = self._watch.before()
        for slot in np.flatnonzero(done).tolist():
            if slot in self._held and slot not in self._ready and self._since[slot] <= seen:
                self._ready[slot] = seen
        drafting = [slot for slot, ticket in self._held.items() if ticket.drafts and slot not in self._ready]
        if drafting:
            self._fetch(drafting, drafts=True)
        if self._ready and (
            len(self._ready) >= min(self._batch, len(self._held)) or seen - min(self._ready.values()) >= _PATIENCE
        ):
            slots = list(self._ready)
            self._fetch(slots)
            for slot in slots:
                self._release(slot)

    def _fetch(self, slots: list[int], *, drafts: bool = False) -> None:
        tickets = [self._held[slot] for slot in slots]
        longest = max(ticket.query.limit for ticket in tickets)
        results = self._frontier.results(self._tensor(slots), longest)
        self._fetched.append(_Fetched(tickets, [_on_host(part) for part in results], drafts, _Mark(self._device)))

    def _release(self, slot: int) -> None:
        del self._held[slot]
        self._ready.pop(slot, None)
        self._free.append(slot)

    def _collect(self) -> list[Event]:
        """Return the news that have arrived; wait for them if there is nothing else to do."""
        events: list[Event] = []
        while self._fetched and (self._fetched[0].mark.passed() or not self._held):
            fetched = self._fetched[0]
            fetched.mark.wait()
            if fetched.drafts:
                drafts = zip(fetched.tickets, self._frontier.read_draft(fetched.results), strict=True)
                events += [ticket.show(tokens) for ticket, tokens in drafts if not ticket.done]
            else:
                found = zip(fetched.tickets, self._frontier.read(fetched.results, fetched.tickets), strict=True)
                events += [ticket.finish(hypotheses) for ticket, hypotheses in found if not ticket.cancelled]
            self._fetched.popleft()
        return events

    def _tensor(self, numbers: Sequence[int]) -> Tensor:
        return on_device(np.array(numbers, np.int64), self._device)


@dataclass(frozen=True)
class _Fetched:
    """Results on their way to the host."""

    tickets: Sequence[Ticket]
    results: Sequence[Tensor]
    drafts: bool
    mark: "_Mark"


def _on_host(x: Tensor) -> Tensor:
    """Copy to the host, without waiting for it."""
    if not x.is_cuda:
        return x
    return torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x, non_blocking=True)


class _Mark:
    """A moment in the work of a device."""

    def __init__(self, device: torch.device) -> None:
        self._event = torch.cuda.Event() if device.type == "cuda" else None
        if self._event is not None:
            self._event.record()

    def passed(self) -> bool:
        return self._event is None or self._event.query()

    def wait(self) -> None:
        if self._event is not None:
            self._event.synchronize()


class _Watch:
    """Reads flags on the device without waiting for the current step: it sees those of the step before."""

    def __init__(self, flags: Tensor) -> None:
        self._flags = flags
        self._copies = [torch.zeros(flags.shape, dtype=torch.bool, pin_memory=flags.is_cuda) for _ in range(2)]
        self._marks: list[_Mark | None] = [None, None]
        self._step = -1

    def look(self, step: int) -> None:
        """Fetch the flags of a step that was just launched."""
        self._step = step
        self._copies[step % 2].copy_(self._flags, non_blocking=True)
        self._marks[step % 2] = _Mark(self._flags.device)

    def late(self) -> bool:
        """Whether the current step is already over."""
        mark = self._marks[self._step % 2]
        return self._flags.is_cuda and mark is not None and mark.passed()

    def before(self) -> tuple[int, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """Return the number of the step before that, and its flags; -1 and no flag set if there is none."""
        before = self._step - 1
        mark = self._marks[before % 2]
        if before < 0 or mark is None:
            return -1, np.zeros(len(self._flags), bool)
        mark.wait()
        return before, self._copies[before % 2].numpy()
