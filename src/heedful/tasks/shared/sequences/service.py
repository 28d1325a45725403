"""Models that search for what they write, for other programs: jobs that ask an engine for some sequences at a time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic

from heedful.decode.engine import Engine, engine_of, found_by
from heedful.decode.ticket import Ticket
from heedful.tasks.shared.answering.jobs import Job, Result
from heedful.tasks.shared.answering.service import Service
from heedful.tasks.shared.sequences.asked import Answer, Asked

_KEPT: Final = 64  # options of earlier requests


class SearchService(Service):
    """A model that searches for what it writes."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.engine = engine_of(model._scorer)  # which calls from other threads share
        self.engine.join_waves()
        self._asked: dict[str, Callable[[Any, int], Asked[Any]]] = {}  # by options, the one used last comes last

    @property
    def idle(self) -> bool:
        """See `Service.idle`."""
        return self.engine.idle and super().idle

    def asking(self, nbest: int, options: Mapping[str, Any], name: str) -> Callable[[Any, int], Asked[Any]]:
        """Return what units ask of the engine with some options: requests with equal options share one."""
        key = repr((nbest, sorted(options.items()), name))
        model: Any = self.model
        found = self._asked.pop(key, None) or model.asking(nbest, options, name)
        self._asked[key] = found
        if len(self._asked) > _KEPT:
            del self._asked[next(iter(self._asked))]
        return found

    def tick(self) -> None:
        """See `Service.tick`."""
        if not self.engine.idle:
            self.engine.work()
        super().tick()


@dataclass
class _Live(Generic[Answer]):
    asked: Asked[Answer]
    tickets: Sequence[Ticket]

    @property
    def done(self) -> bool:
        return not self.tickets[0].group.left


class SearchJob(Job, Generic[Answer]):
    """Units of work that an engine searches for, some at a time: sentences of texts, or images."""

    def __init__(
        self, engine: Engine, asking: Callable[[int], Asked[Answer]], units: int, *, drafts: bool = False
    ) -> None:
        """`asking` returns what a unit asks of the engine: one answer in the end."""
        self._engine, self._asking, self._units, self._drafts = engine, asking, units, drafts
        self._next = 0
        self._live: dict[int, _Live[Answer]] = {}
        self.answers: dict[int, Answer] = {}  # by unit

    @property
    def size(self) -> int:
        """Number of units."""
        return self._units

    def advance(self, room: int) -> bool:
        """See `Job.advance`."""
        for unit, live in [(unit, live) for unit, live in self._live.items() if live.done]:
            after = live.asked.then(found_by(live.tickets))
            del self._live[unit]
            if isinstance(after, Asked):
                self._ask(unit, after)
            else:
                (self.answers[unit],) = after
        while self._next < self._units and len(self._live) < max(1, room):
            self._ask(self._next, self._asking(self._next))
            self._next += 1
        done = len(self.answers) == self._units
        if done:
            self.results = self.finished()
        return done

    def finished(self) -> Sequence[Result]:
        """Return the results, once all units have their answers."""
        return ()

    def cancel(self) -> None:
        """See `Job.cancel`."""
        for live in self._live.values():
            self._engine.cancel(*live.tickets)
        self._live.clear()

    def drafts(self) -> dict[int, Sequence[int]]:
        """Return the best tokens so far of the units that are under way."""
        return {unit: live.tickets[0].draft for unit, live in self._live.items() if live.tickets}

    def _ask(self, unit: int, asked: Asked[Answer]) -> None:
        while not asked.queries:  # a blank text asks for nothing; samples with required words are only drawn with them
            after = asked.then([])
            if not isinstance(after, Asked):
                (self.answers[unit],) = after
                return
            asked = after
        tickets = self._engine.add_all(asked.queries, asked.settings, asked.batch_tokens, drafts=self._drafts)
        self._live[unit] = _Live(asked, tickets)
