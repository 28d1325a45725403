"""A cancelled ticket leaves nothing: no slot, no row, no news."""

import random
from typing import Any

import pytest
from tests.unit.decode.engine.mixed import (
    OPTIONS,
    Asked,
    add,
    all_alone,
    asked_of,
    assert_finds,
    engine_of_kind,
    finish,
    found_alone,
    scorer_of,
)
from tests.unit.decode.slots.small_searches import lanes_of

from heedful.decode.engine import Engine
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.runner import SlotRunner
from heedful.decode.ticket import Ticket

NAME = "post-sinusoidal"
KINDS = pytest.mark.parametrize(("name", "in_slots"), [(NAME, False), (NAME, True), ("language-rope", True)])


def free_slots(engine: Engine) -> list[bool]:
    """Of each runner, whether all slots are free."""
    return [sorted(runner._free) == list(range(runner.shape.slots)) for runner in lanes_of(engine).runners()]


def long_one(name: str, beam: int = 1) -> Asked:
    """A search of 30 steps."""
    source = [1, 5, 9] if scorer_of(name).continues else [5, 9, 2]
    return Asked(Query(source, 30), SearchSettings(beam=beam, min_length=29), batch_tokens=1)


@KINDS
def test_an_engine_is_idle_once_the_rest_is_done_whenever_others_were_cancelled(name: str, in_slots: bool) -> None:
    engine, chance = engine_of_kind(name, in_slots), random.Random(1)
    if in_slots:
        lanes_of(engine).sizes = (3,)
    asked = asked_of(name, seed=1)[::2]
    tickets = [add(engine, one, drafts=chance.random() < 0.5) for one in asked * 2]
    gone: set[Ticket] = set()
    while not engine.idle:
        cancelled = chance.sample(tickets[len(asked) :], 2)
        done = {ticket for ticket in cancelled if ticket.done}
        engine.cancel(*cancelled)
        assert not any(ticket.cancelled for ticket in done if ticket not in gone)
        gone.update(set(cancelled) - done)
        assert not [event for event in engine.tick() if event.ticket in gone]
    assert len(gone) > 2
    assert all(ticket.cancelled and ticket.found is None and ticket.error is None for ticket in gone)
    for ticket, expected in zip(tickets, all_alone(name, seed=1)[::2] * 2, strict=True):
        if ticket not in gone:
            assert_finds(ticket, expected)
    assert not engine._waves._live
    assert not in_slots or all(free_slots(engine))


@KINDS
def test_the_place_of_a_cancelled_ticket_is_free_within_two_ticks(name: str, in_slots: bool) -> None:
    """One slot, or a budget for one wave: another waits for it."""
    engine = engine_of_kind(name, in_slots)
    if in_slots:
        lanes_of(engine).sizes = (1,)
    for beam in (1, 3):
        asked = long_one(name, beam)
        first, second = add(engine, asked), add(engine, asked, drafts=True)
        for _ in range(3):
            assert not engine.tick()
        assert second.draft == ()
        engine.cancel(first)
        engine.tick()
        engine.tick()
        assert len(second.draft) > 0
        finish(engine)
        assert_finds(second, found_alone(scorer_of(name), asked))
        assert first.found is None


@KINDS
def test_when_all_are_cancelled_the_engine_is_idle_after_a_tick(name: str, in_slots: bool) -> None:
    engine = engine_of_kind(name, in_slots)
    for ticks in (0, 1, 2, 4):
        tickets = [add(engine, long_one(name, beam), drafts=True) for beam in (1, 2, 3, 1, 2)]
        for _ in range(ticks):
            engine.tick()
        engine.cancel(*tickets)
        assert all(ticket.done for ticket in tickets)
        assert engine.tick() == []
        assert engine.idle
        assert not in_slots or all(free_slots(engine))


@KINDS
def test_cancelling_what_is_done_changes_nothing(name: str, in_slots: bool) -> None:
    engine, asked = engine_of_kind(name, in_slots), asked_of(name, seed=1)[0]
    ticket = add(engine, asked)
    finish(engine)
    engine.cancel(ticket, ticket)
    assert engine.idle
    assert not ticket.cancelled
    assert_finds(ticket, found_alone(scorer_of(name), asked))
    assert engine.tick() == []


@KINDS
def test_what_is_cancelled_before_it_begins_is_never_decoded(
    name: str, in_slots: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of_kind(name, in_slots)
    if in_slots:
        lanes_of(engine).sizes = (1,)
    first, waiting, arrived = (add(engine, long_one(name)) for _ in range(3))
    engine.cancel(arrived)  # the engine has not seen it yet
    engine.tick()
    engine.cancel(waiting)  # for its turn
    begun = list[Any]()
    real = SlotRunner._admit

    def notes(*call: Any) -> None:
        begun.append(call)
        real(*call)

    monkeypatch.setattr(SlotRunner, "_admit", notes)
    monkeypatch.setattr("heedful.decode.waves.WaveOfQueries", begun.append)
    finish(engine)
    assert not begun
    assert first.found is not None
    assert waiting.found is arrived.found is None


def test_options_of_these_tests_are_many() -> None:
    """The first test above mixes slots and waves in one engine."""
    taken = {lanes_of(Engine(scorer_of(NAME))).takes(SearchSettings(**options)) for options in OPTIONS}
    assert taken == {True, False}
