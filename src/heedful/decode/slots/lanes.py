"""The slots of one model: a lane for each kind of search and length of targets, with as many slots as are of use.

A lane has runners of a few sizes, so that few recordings serve few tickets and many; what was recorded is kept.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import torch

from heedful.config.decode import Sampling
from heedful.decode.constraints.tokens import NEVER
from heedful.decode.hypothesis import Wu
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.encoder import Memories
from heedful.decode.slots.frontier import can_use_slots
from heedful.decode.slots.greedy import is_ranked
from heedful.decode.slots.runner import SlotRunner
from heedful.decode.ticket import Event, Ticket
from heedful.models.protocols import Generator
from heedful.models.transformer.slots import SlotDecoder, SlotShape
from heedful.nn.cuda_graphs import free_memory
from heedful.nn.kernels.sizes import next_power_of_two

# On a GPU. Steps of few slots are fast, those of many cost the least per token; smaller buffers are not faster, and
# each further length of buffers divides what could be decoded together.
_SLOTS: Final = (16, 256)  # of a runner
_SMALLEST: Final = 256  # positions, and tokens of memory
_ON_CPU: Final = ((4, 16), 64)  # the same where slots run for comparison, with buffers that are attended to as a whole
_SHARE: Final = 0.25  # of the free memory of a GPU that one runner may take
_HELD: Final = 0.125  # of the free memory that idle runners may keep
_FREE_ON_CPU: Final = 2**30  # bytes that count as free there
_BEAMS: Final = 64  # more do not fit the registers of a program
_NO_PENALTY: Final = Wu(0.0)
_HEAD: Final = 512  # bytes of a head's vector: more does not fit the shared memory of every GPU


@dataclass(eq=False)
class _Lane:
    """Tickets that one recording serves, whatever its number of slots."""

    settings: SearchSettings  # of any of its tickets, as far as a recording depends on them
    shape: SlotShape  # of its slots, whose number is 1 here
    prefixed: bool
    waiting: deque[Ticket] = field(default_factory=deque)
    runners: dict[int, SlotRunner] = field(default_factory=dict)  # by their number of slots

    @property
    def busy(self) -> list[SlotRunner]:
        """Runners with tickets."""
        return [runner for runner in self.runners.values() if not runner.idle]


class SlotLanes:
    """Decodes tickets in slots. It keeps buffers and recordings for the shapes that it has seen."""

    def __init__(self, model: Generator) -> None:
        self._model = model
        self._weights: tuple[int, ...] = ()  # addresses: recordings read weights there
        self._lanes: OrderedDict[object, _Lane] = OrderedDict()  # the one that was used last comes last
        self._memories: dict[int, Memories] = {}  # by the tokens of the longest
        # The numbers of slots that a runner may have, in ascending order, and the least room of a slot.
        self.sizes: Sequence[int]
        self.sizes, self.smallest = (_SLOTS, _SMALLEST) if self.weight.is_cuda else _ON_CPU
        # The settings of the ticket that came last, and lanes for them: a call has one object for all of its tickets.
        self._last: tuple[SearchSettings | None, dict[tuple[SlotShape, bool], _Lane]] = (None, {})

    @property
    def weight(self) -> torch.Tensor:
        """A weight, whose device is that of the slots."""
        return self._model.decoder.output.weight

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not any(lane.waiting or lane.busy for lane in self._lanes.values())

    @property
    def recordings(self) -> int:
        """Number of recordings that are kept: steps of decoders, and encodings."""
        return len(self.runners()) + sum(memories.recordings for memories in self._memories.values())

    def runners(self) -> list[SlotRunner]:
        """Return all runners that are kept."""
        return [runner for lane in self._lanes.values() for runner in lane.runners.values()]

    def takes(self, settings: SearchSettings) -> bool:
        """Whether slots can do searches with these settings."""
        return self._fits and can_use_slots(settings) and settings.beam <= _BEAMS

    @cached_property
    def _fits(self) -> bool:
        """Whether slots can hold what the decoder keeps."""
        decoder = self._model.decoder
        return isinstance(decoder, SlotDecoder) and decoder.decodes_in_slots and decoder.head_bytes <= _HEAD

    def takes_prefix(self, query: Query, settings: SearchSettings) -> bool:
        """Whether a query has no prefix with tokens that slots never output."""
        return not len(query.prefix) or {*NEVER, *settings.never}.isdisjoint(query.prefix)

    def check_weights(self) -> None:
        """Forget what was recorded if weights have moved since."""
        weights = tuple(weight.data_ptr() for weight in self._model.parameters())
        if weights != self._weights:
            self._weights = weights
            self._lanes.clear()
            self._memories.clear()
            self._last = (None, {})

    def take(self, ticket: Ticket) -> None:
        """Let a ticket wait for a slot."""
        query, settings = ticket.query, ticket.settings
        continued = self._model.encoder is None
        room = next_power_of_two(query.limit + (len(query.source) - 1 if continued else 0), self.smallest)
        memory = 0 if continued else max(room, next_power_of_two(len(query.source), self.smallest))
        if settings is not self._last[0]:
            self._last = (settings, {})
        known, kind = self._last[1], (SlotShape(1, settings.beam, room, memory), len(query.prefix) > 0)
        if kind not in known:
            known[kind] = self._lane(settings, *kind)
        known[kind].waiting.append(ticket)

    def _lane(self, settings: SearchSettings, shape: SlotShape, prefixed: bool) -> _Lane:
        alike = _recorded(settings, self.weight.shape[0])
        key = alike, shape, prefixed
        if key not in self._lanes:
            self._lanes[key] = _Lane(alike, shape, prefixed)
        self._lanes.move_to_end(key)
        return self._lanes[key]

    def drop(self, cancelled: set[Ticket]) -> None:
        """Stop tickets."""
        for lane in self._lanes.values():
            if not cancelled.isdisjoint(lane.waiting):
                lane.waiting = deque(ticket for ticket in lane.waiting if ticket not in cancelled)
            for runner in lane.busy:
                runner.drop(cancelled)

    def tick(self) -> list[Event]:
        """Launch steps for all tickets, and return the news of those that were launched before.

        If a lane fails, so do its tickets. If it is interrupted, they wait again, for slots that are made anew.
        """
        events: list[Event] = []
        for lane in list(self._lanes.values()):
            if not lane.waiting and not lane.busy:
                continue
            try:
                chosen = self._choose(lane) if lane.waiting else None
                for runner in lane.busy:
                    if runner is not chosen:
                        runner.tick(deque(), events)
                if chosen is not None:
                    chosen.tick(lane.waiting, events)
            except BaseException as error:
                under_way = [ticket for runner in lane.runners.values() for ticket in runner.tickets()]
                lane.runners.clear()
                tickets = [ticket for ticket in (*under_way, *lane.waiting) if not ticket.done]
                lane.waiting = deque(tickets)
                if not isinstance(error, Exception):
                    raise
                lane.waiting.clear()
                events += [ticket.fail(error) for ticket in tickets]
        return events

    def _choose(self, lane: _Lane) -> SlotRunner:
        """Return the runner that admits the tickets of a lane: the smallest that has a slot for each, or the largest.

        One that is busy and still large enough is used first.
        """
        sizes = self._sizes(lane)
        wanted = len(lane.waiting) + max((runner.held for runner in lane.busy), default=0)
        size = next((size for size in sizes if size >= wanted), sizes[-1])
        if size not in lane.runners:
            larger = [other for other, runner in lane.runners.items() if other > size and not runner.idle]
            if larger:
                return lane.runners[min(larger)]
            self._make(lane, size)
        return lane.runners[size]

    def _make(self, lane: _Lane, size: int) -> None:
        idle = [
            (other, count, runner)
            for other in self._lanes.values()
            for count, runner in other.runners.items()
            if runner.idle
        ]
        held = sum(runner.bytes for *_, runner in idle)
        for other, count, runner in idle:  # those that were used the longest ago come first
            if held <= _HELD * self._free_memory():
                break
            held -= runner.bytes
            del other.runners[count]
        empty = [key for key, one in self._lanes.items() if one is not lane and not (one.runners or one.waiting)]
        for key in empty:
            del self._lanes[key]
        self._last = (None, {})
        memories = None
        if self._model.encoder is not None:
            if lane.shape.memory not in self._memories:
                self._memories[lane.shape.memory] = Memories(self._model, lane.shape.memory)
            memories = self._memories[lane.shape.memory]
        shape = replace(lane.shape, slots=size)
        lane.runners[size] = SlotRunner(self._model, shape, lane.settings, memories, lane.prefixed)

    def _sizes(self, lane: _Lane) -> list[int]:
        """Return the numbers of slots that a runner of a lane may have: as many as memory holds."""
        if lane.runners and max(lane.runners) == self.sizes[-1]:
            return list(self.sizes)
        assert isinstance(self._model.decoder, SlotDecoder)
        each = self._model.decoder.slot_bytes(lane.shape)
        most = max(1, int(_SHARE * self._free_memory()) // each, *lane.runners)
        return [size for size in self.sizes if size <= most] or [1 << (most.bit_length() - 1)]

    def _free_memory(self) -> int:
        free = free_memory(self.weight.device)
        return _FREE_ON_CPU if free is None else free


def _recorded(settings: SearchSettings, vocab_size: int) -> SearchSettings:
    """Return the settings as far as a recording depends on them."""
    sampling = settings.sampling
    if sampling is not None:
        sampling = Sampling(top_p=0.5) if is_ranked(sampling, vocab_size) else Sampling()
    return replace(settings, sampling=sampling, penalty=_NO_PENALTY, min_length=0, max_extra=1)
