"""The engine: queries of one model, or of an ensemble, that join, leave and stop at every step.

    ticket = engine.add(query, settings)      it takes part from the next tick on
    events = engine.tick()                    one step of everything that is under way
    engine.cancel(ticket)                     it stops before the next step

A GPU decodes in slots (`decode/slots`); what slots cannot do, and a CPU, decodes in waves (`decode/waves.py`). What is
found for a query does not depend on its neighbours, or on when it joined.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from copy import copy, deepcopy
from threading import Condition, Lock
from typing import Any, Final

import torch

from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.scorer import Scorer, SingleModel
from heedful.decode.settings import SearchSettings
from heedful.decode.shortlist import takes_shortlists
from heedful.decode.slots.lanes import SlotLanes
from heedful.decode.ticket import Event, Group, Ticket, check_queries
from heedful.decode.waves import Waves
from heedful.native.encoder import hooks_of
from heedful.nn.evaluation_mode import computes_by_equation, has_hook_here
from heedful.nn.kernels import use_kernels

BUDGET: Final = 4096  # tokens of a batch, where nobody says
_PATIENCE: Final = 0.02  # seconds after which a waiting thread looks whether it should tick itself


class Engine:
    """Queries of one scorer. Threads may share it: whoever waits for a ticket ticks for all of them.

    Models are used as they are: put them into `eval` mode.
    """

    def __init__(self, scorer: Scorer, in_slots: bool | None = None) -> None:
        """`in_slots` says whether slots are used where they can be; by default on a GPU with kernels."""
        self._scorer, self._in_slots = scorer, in_slots
        self.slots = SlotLanes(scorer.model) if isinstance(scorer, SingleModel) else None
        self._waves = Waves(scorer)
        self._arrived = deque[tuple[Ticket, bool]]()  # with whether slots take it
        self._cancelled: set[Ticket] = set()
        self._unchecked = True  # whether weights may have moved since anything was recorded
        self._ticking, self._news = Lock(), Condition()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Engine":
        """Return an engine of a copy of the scorer, with nothing under way."""
        return Engine(deepcopy(self._scorer, memo), self._in_slots)

    def join_waves(self) -> None:
        """Let queries join the waves that are under way: see `Waves`."""
        self._waves.joining = True

    @property
    def idle(self) -> bool:
        """Whether no ticket is under way."""
        return not self._arrived and self._waves.idle and (self.slots is None or self.slots.idle)

    def add(
        self, query: Query, settings: SearchSettings, batch_tokens: int = BUDGET, *, drafts: bool = False
    ) -> Ticket:
        """Ask for the targets of a query; with `drafts`, every tick shows the best tokens so far."""
        return self.add_all([query], settings, batch_tokens, drafts=drafts)[0]

    def add_all(
        self, queries: Sequence[Query], settings: SearchSettings, batch_tokens: int = BUDGET, *, drafts: bool = False
    ) -> list[Ticket]:
        """Ask for the targets of several queries, or refuse them all."""
        scorer = self._scorer
        checked = check_queries(queries, settings, scorer.vocab_size, scorer.longest, scorer.continues)
        group = Group(len(checked))
        tickets = [Ticket(query, settings, batch_tokens, group, drafts) for query in checked]
        in_slots = self._uses_slots(settings) and not takes_shortlists(checked, settings)
        self._unchecked = True
        self._arrived.extend(
            (ticket, in_slots and self.slots is not None and self.slots.takes_prefix(ticket.query, settings))
            for ticket in tickets
        )
        return tickets

    def cancel(self, *tickets: Ticket) -> None:
        """Stop tickets before the next step; nothing happens to those that are done."""
        for ticket in tickets:
            if not ticket.done:
                ticket.cancelled = True
                self._cancelled.add(ticket)

    def tick(self) -> list[Event]:
        """Take one step of all that is under way; return what is new, also of the tickets of other threads."""
        with self._ticking:
            return self._tick()

    def run(
        self,
        queries: Sequence[Query],
        settings: SearchSettings,
        batch_tokens: int = BUDGET,
        progress: Callable[[int], None] = lambda ready: None,
    ) -> list[list[Hypothesis]]:
        """Find the targets of all queries, together with whatever other threads ask for.

        `progress` is called with the number of queries finished since the last call.
        """
        tickets = self.add_all(queries, settings, batch_tokens)
        if not tickets:
            return []
        group, reported = tickets[0].group, 0
        try:
            while group.left:
                self.work()
                if finished := len(tickets) - group.left - reported:
                    reported += finished
                    progress(finished)
        except BaseException:
            self.cancel(*tickets)
            raise
        return found_by(tickets)

    def work(self) -> None:
        """Tick once, or wait while another thread does."""
        if self._ticking.acquire(blocking=False):
            try:
                self._tick()
            finally:
                self._ticking.release()
            with self._news:
                self._news.notify_all()
        else:
            with self._news:
                self._news.wait(_PATIENCE)

    @torch.inference_mode()
    def _tick(self) -> list[Event]:
        device = self._scorer.device
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            events: list[Event] = []
            if self._unchecked and self.slots is not None and self.slots.idle:  # while nothing is under way there
                self._unchecked = False
                self.slots.check_weights()
            while self._arrived:
                ticket, in_slots = self._arrived[0]
                try:
                    if not ticket.cancelled:
                        (self.slots if in_slots and self.slots is not None else self._waves).take(ticket)
                except Exception as error:  # a fault of ours must not let other threads wait for ever
                    events.append(ticket.fail(error))
                self._arrived.popleft()  # now: an interrupt loses none
            gone = set[Ticket]()
            while self._cancelled:
                gone.add(self._cancelled.pop())
            lanes: list[SlotLanes | Waves] = [self._waves] if self.slots is None else [self.slots, self._waves]
            for lane in lanes:
                if gone:
                    lane.drop(gone)
                events += lane.tick()
            return events

    def _uses_slots(self, settings: SearchSettings) -> bool:
        if self.slots is None or not self.slots.takes(settings):
            return False
        return use_kernels(self.slots.weight) if self._in_slots is None else self._in_slots


def found_by(tickets: Iterable[Ticket]) -> list[list[Hypothesis]]:
    """Return what was found for tickets that are done, or raise the error of one that failed."""
    found: list[list[Hypothesis]] = []
    for ticket in tickets:
        if ticket.error is not None:
            raise ticket.error
        assert ticket.found is not None, "only the owner of a ticket cancels it"
        found.append(ticket.found)
    return found


def engine_of(scorer: Scorer) -> Engine:
    """Return the engine of a scorer, which keeps it.

    While this thread looks at what the network computes, or changes it, its searches run by themselves.
    """
    networks = [scorer.model] if isinstance(scorer, SingleModel) else list(scorer.models)
    if computes_by_equation() or any(has_hook_here(hooks_of(network)) for network in networks):
        return Engine(scorer)
    if "_engine" not in vars(scorer):
        # Of a copy: what holds itself would keep a GPU's memory until it is found.
        vars(scorer).setdefault("_engine", Engine(copy(scorer)))
    kept: Engine = vars(scorer)["_engine"]
    return kept
