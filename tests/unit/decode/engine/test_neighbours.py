"""What is found for a query depends on neither its neighbours nor the moment at which it joins."""

import random
from collections.abc import Sequence

import pytest
from tests.unit.decode.engine.mixed import KINDS, add, all_alone, asked_of, assert_finds, engine_of_kind, finish
from tests.unit.decode.slots.small_searches import lanes_of

from heedful.decode.engine import Engine

pytestmark = pytest.mark.parametrize(("name", "in_slots"), KINDS)


def engine_of(name: str, in_slots: bool, sizes: Sequence[int]) -> Engine:
    """An engine with slots of these numbers, where it has any: where they are few, tickets wait for each other."""
    engine = engine_of_kind(name, in_slots)
    if in_slots:
        lanes_of(engine).sizes = sizes
    return engine


def test_all_at_once(name: str, in_slots: bool) -> None:
    engine = engine_of(name, in_slots, (16,))
    tickets = [add(engine, asked) for asked in asked_of(name, seed=1)]
    finish(engine)
    for ticket, expected in zip(tickets, all_alone(name, seed=1), strict=True):
        assert_finds(ticket, expected)
    if in_slots:
        assert lanes_of(engine).recordings  # they were used


def test_joining_late(name: str, in_slots: bool) -> None:
    """Each joins some ticks after the one before."""
    engine, chance = engine_of(name, in_slots, (2, 4)), random.Random(1)
    tickets = []
    for asked in asked_of(name, seed=1):
        tickets.append(add(engine, asked))
        for _ in range(chance.choice((0, 0, 1, 2, 5))):
            engine.tick()
    finish(engine)
    for ticket, expected in zip(tickets, all_alone(name, seed=1), strict=True):
        assert_finds(ticket, expected)


def test_while_neighbours_are_cancelled(name: str, in_slots: bool) -> None:
    """Others come and go, before their first step or later."""
    engine, chance = engine_of(name, in_slots, (1,)), random.Random(2)
    tickets, others = [], []
    for asked in asked_of(name, seed=1):
        others += [add(engine, chance.choice(asked_of(name, seed=2))) for _ in range(2)]
        tickets.append(add(engine, asked))
        for _ in range(chance.choice((0, 1, 3))):
            engine.tick()
        for other in chance.sample(others, len(others) // 2):
            engine.cancel(other)
            others.remove(other)
    engine.cancel(*others)
    finish(engine)
    for ticket, expected in zip(tickets, all_alone(name, seed=1), strict=True):
        assert_finds(ticket, expected)
