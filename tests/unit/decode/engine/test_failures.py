"""What goes wrong reaches those whose tickets it hit, and nobody else; afterwards the engine serves again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pytest
from tests.shared.refusals import refuses
from tests.unit.decode.engine.mixed import (
    TREES,
    Asked,
    all_alone,
    asked_of,
    assert_finds,
    assert_same,
    engine_of_kind,
    finish,
    found_alone,
    scorer_of,
)
from tests.unit.decode.slots.small_searches import lanes_of

from heedful.base.errors import UserError
from heedful.decode import waves
from heedful.decode.engine import Engine
from heedful.decode.hypothesis import Wu
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.beam import BeamInSlots
from heedful.decode.slots.encoder import Memories
from heedful.decode.slots.greedy import GreedyInSlots
from heedful.decode.slots.lanes import SlotLanes
from heedful.decode.slots.runner import SlotRunner
from heedful.decode.ticket import Event, Ticket
from heedful.decode.waves import Wave, Waves

NAME = "post-sinusoidal"
BOTH = pytest.mark.parametrize("in_slots", [False, True])
GREEDY = SearchSettings(beam=1, min_length=6)
BEAM = SearchSettings(beam=3, min_length=6)


def query(number: int = 0, limit: int = 9) -> Query:
    return Query([5, 9, 4 + number % 9, 2], limit, (), number, words=2)


@contextmanager
def failing(where: type, name: str, error: BaseException, after: int = 0) -> Iterator[None]:
    """Raise an error in one call of a method; those before and after it work."""
    real: Callable[..., Any] = getattr(where, name)
    calls = 0

    def fails(*given: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == after + 1:
            raise error
        return real(*given, **options)

    is_static = isinstance(vars(where).get(name), staticmethod)
    with mock.patch.object(where, name, staticmethod(fails) if is_static else fails):
        yield
    assert calls > after, "it never came to that"


@dataclass(frozen=True)
class Place:
    """Where something goes wrong: in the call of a method after so many others."""

    where: type
    name: str
    after: int = 0

    def failing(self, error: BaseException) -> AbstractContextManager[None]:
        return failing(self.where, self.name, error, self.after)


IN_WAVES = [Place(Wave, "__init__"), Place(Wave, "step"), Place(Wave, "step", after=3)]
IN_SLOTS = [
    Place(SlotRunner, "__init__"),
    Place(Memories, "of"),
    Place(GreedyInSlots, "admit"),
    Place(GreedyInSlots, "grow"),
    Place(GreedyInSlots, "grow", after=6),
    Place(GreedyInSlots, "results"),
    Place(GreedyInSlots, "read"),
    Place(GreedyInSlots, "read_draft"),
]


@BOTH
def test_an_error_reaches_the_tickets_that_it_hits_and_the_engine_serves_again(in_slots: bool) -> None:
    """Others, with other settings, do not notice; none is forgotten, also of those that wait for a slot."""
    asked = [Asked(query(number), GREEDY) for number in range(5)] + [Asked(query(number), BEAM) for number in range(3)]
    expected = [found_alone(scorer_of(NAME), one) for one in asked]
    for place in IN_SLOTS if in_slots else IN_WAVES:
        engine, error = engine_of_kind(NAME, in_slots), RuntimeError("out of memory")
        if in_slots:
            lanes_of(engine).sizes = (2,)
        tickets = [engine.add(one.query, one.settings, drafts=True) for one in asked]
        with place.failing(error):
            failed = [event.ticket for event in all_events(engine) if event.kind == "failed"]
        assert failed, place
        assert len(set(failed)) == len(failed), place
        assert len({ticket.settings for ticket in failed}) == 1, place
        for ticket, found in zip(tickets, expected, strict=True):
            assert (ticket.error is error) is (ticket in failed), place
            if ticket not in failed:
                assert_finds(ticket, found)
        for one, found in zip(asked_of(NAME, seed=1)[:3], all_alone(NAME, seed=1)[:3], strict=True):
            assert_same(engine.run([one.query], one.settings)[0], found)


@BOTH
def test_an_interrupt_of_the_thread_that_ticks_leaves_the_tickets_of_others(in_slots: bool) -> None:
    expected = [found_alone(scorer_of(NAME), Asked(query(number), GREEDY)) for number in range(4)]
    for place in [*(IN_SLOTS if in_slots else IN_WAVES), Place(SlotLanes if in_slots else Waves, "take", after=2)]:
        engine = engine_of_kind(NAME, in_slots)
        others = [engine.add(query(number), GREEDY, drafts=number == 1) for number in range(4)]
        with place.failing(KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
            engine.run([query(number) for number in range(4, 7)], GREEDY)
        finished = [event.ticket for event in all_events(engine) if event.kind == "finished"]
        assert sorted(numbers(finished)) == numbers(others), place
        for ticket, found in zip(others, expected, strict=True):
            assert_finds(ticket, found)


def all_events(engine: Engine) -> list[Event]:
    events = list[Event]()
    for _ in range(500):
        if engine.idle:
            return events
        events += engine.tick()
    raise AssertionError("the engine does not come to an end")


def numbers(tickets: Sequence[Ticket]) -> list[int]:
    return [ticket.number for ticket in tickets]


# --- what one call asks for is impossible -----------------------------------------------------------------------------


@BOTH
def test_what_is_impossible_for_one_call_is_not_for_others(in_slots: bool) -> None:
    """They share a wave, or are admitted together."""
    engine, settings = engine_of_kind(NAME, in_slots), SearchSettings(beam=2, constraints=TREES)
    before = engine.add_all([query(number) for number in range(2)], settings)
    refused = engine.add_all([query(2), replace(query(3), words=30)], settings)
    after = engine.add(query(4), settings)
    assert [event.ticket for event in all_events(engine) if event.kind == "failed"] == refused
    for ticket in refused:
        assert isinstance(ticket.error, UserError)
        assert str(ticket.error).startswith("Sentence 4 has 30 words, but its tree")
    for ticket in (*before, after):
        assert_finds(ticket, found_alone(scorer_of(NAME), Asked(ticket.query, settings)))


def test_every_ticket_has_its_news_where_a_tick_both_refuses_and_fails() -> None:
    engine, settings = engine_of_kind(NAME, in_slots=True), SearchSettings(beam=2, constraints=TREES)
    tickets = [engine.add(query(0), settings), engine.add(replace(query(1), words=30), settings)]
    with failing(BeamInSlots, "grow", RuntimeError("out of memory")):
        events = all_events(engine)
    assert sorted(numbers([event.ticket for event in events])) == numbers(tickets)


@BOTH
def test_what_is_refused_before_a_search_begins_leaves_nothing(in_slots: bool) -> None:
    engine = engine_of_kind(NAME, in_slots)
    with refuses("... at most 9 tokens with `</s>`: lower ..."):
        engine.add_all([query(0, limit=20), query(1, limit=9)], SearchSettings(min_length=12))
    assert engine.idle
    assert engine.tick() == []


# --- what callers bring -----------------------------------------------------------------------------------------------


@dataclass
class Own:
    """A penalty of a caller, which cannot be hashed, and may fail from some length on."""

    fails_from: int = 1000

    def __call__(self, length: int) -> float:
        if length >= self.fails_from:
            raise ValueError("no such length")
        return float(length)


@BOTH
def test_a_penalty_may_be_any_callable(in_slots: bool) -> None:
    engine = engine_of_kind(NAME, in_slots)
    for beam in (1, 3):
        settings = SearchSettings(beam=beam, min_length=4, penalty=Own())
        expected = found_alone(scorer_of(NAME), Asked(query(), replace(settings, penalty=lambda length: float(length))))
        assert_same(engine.run([query()], settings)[0], expected)


@BOTH
def test_a_penalty_is_asked_for_the_lengths_that_a_target_may_have(in_slots: bool) -> None:
    engine, known = engine_of_kind(NAME, in_slots), {length: length / 2 for length in range(1, 10)}
    for beam in (1, 3):
        settings = SearchSettings(beam=beam, min_length=4, penalty=known.__getitem__)
        expected = found_alone(scorer_of(NAME), Asked(query(), replace(settings, penalty=lambda length: length / 2)))
        assert_same(engine.run([query()], settings)[0], expected)


@BOTH
def test_a_penalty_that_fails_fails_its_tickets_and_forgets_none(in_slots: bool) -> None:
    engine = engine_of_kind(NAME, in_slots)
    for beam in (1, 3):
        settings = SearchSettings(beam=beam, min_length=6, penalty=Wu(1.0))
        other = engine.add(query(1), settings)
        with pytest.raises(ValueError, match="no such length"):
            engine.run([query()], replace(settings, penalty=Own(fails_from=5).__call__))
        finish(engine)
        assert other.done
        assert other.found is not None or in_slots  # where they share what is read
        assert_same(engine.run([query(1)], settings)[0], found_alone(scorer_of(NAME), Asked(query(1), settings)))


@BOTH
def test_an_error_while_progress_is_shown_stops_the_rest_of_the_call(in_slots: bool) -> None:
    engine, shown = engine_of_kind(NAME, in_slots), list[int]()
    other = engine.add(query(1), GREEDY)

    def show(finished: int) -> None:
        shown.append(finished)
        raise OSError("the terminal is gone")

    queries = [query(0, limit=7), *(query(number, limit=40) for number in range(2, 5))]
    with pytest.raises(OSError, match="the terminal is gone"):
        engine.run(queries, replace(GREEDY, min_length=5), progress=show)
    assert len(shown) == 1
    finish(engine)
    assert_finds(other, found_alone(scorer_of(NAME), Asked(other.query, GREEDY)))


def test_progress_is_the_number_of_queries_finished_since_the_last_call() -> None:
    for in_slots in (False, True):
        engine, shown = engine_of_kind(NAME, in_slots), list[int]()
        engine.run([query(number, limit=7 + number) for number in range(9)], GREEDY, 30, shown.append)
        assert sum(shown) == 9
        assert min(shown) > 0


def test_an_interrupt_while_calls_are_divided_begins_none_twice() -> None:
    """One of several calls in a wave was impossible, so that each begins again; meanwhile comes the interrupt."""
    engine, settings = Engine(scorer_of(NAME)), SearchSettings(beam=2, constraints=TREES)
    tickets = [engine.add(query(number), settings) for number in range(3)]
    refused = engine.add(replace(query(3), words=30), settings)
    with failing(waves.WaveOfQueries, "__init__", KeyboardInterrupt(), after=3), pytest.raises(KeyboardInterrupt):
        finish(engine)
    finished = [event.ticket for event in all_events(engine) if event.kind == "finished"]
    assert sorted(numbers(finished)) == numbers(tickets)
    assert isinstance(refused.error, UserError)
    assert [ticket.group.left for ticket in (*tickets, refused)] == [0] * 4
