"""Waves that join others: what is found stays the same, wherever sentences are when others come."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from tests.unit.decode.engine.mixed import (
    FEW,
    SCORERS,
    Asked,
    add,
    asked_of,
    assert_finds,
    engine_of_kind,
    finish,
    found_alone,
    scorer_of,
)

from heedful.config.decode import Sampling
from heedful.decode.engine import BUDGET, Engine
from heedful.decode.hypothesis import Hypothesis, Wu
from heedful.decode.settings import SearchSettings
from heedful.decode.waves import Wave

NAMES = [pytest.param(name, marks=() if name in FEW else pytest.mark.wide) for name in SCORERS]
SETTINGS = (
    SearchSettings(beam=1),
    SearchSettings(beam=3, nbest=2, penalty=Wu(1.0), never=(7, 8)),
    SearchSettings(beam=2, min_length=2),  # which counts tokens, so that it joins no others
    SearchSettings(beam=1, sampling=Sampling(0.9, seed=3)),
)


@cache
def asked_by_many(name: str) -> Sequence[Asked]:
    """Queries with few settings, so that others with the same are under way; some have prefixes or shortlists."""
    asked = [replace(one, batch_tokens=BUDGET) for one in asked_of(name, 3, 3)]
    return [replace(one, settings=SETTINGS[number % len(SETTINGS)]) for number, one in enumerate(asked)]


@cache
def expected_of(name: str) -> Sequence[list[Hypothesis]]:
    return [found_alone(scorer_of(name), asked) for asked in asked_by_many(name)]


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each wave that could have joined another did."""
    found: list[bool] = []
    take_over = Wave.take_over

    def noted(self: Wave, other: Wave) -> bool:
        found.append(take_over(self, other))
        return found[-1]

    monkeypatch.setattr(Wave, "take_over", noted)
    return found


def joining_engine(name: str) -> Engine:
    engine = engine_of_kind(name, in_slots=False)
    engine.join_waves()
    return engine


@pytest.mark.parametrize("name", NAMES)
def test_what_joins_late_while_others_leave_finds_what_it_finds_alone(name: str, joined: list[bool]) -> None:
    engine, chance, tickets, others = joining_engine(name), random.Random(4), [], []
    for asked in asked_by_many(name):
        others.append(add(engine, chance.choice(asked_by_many(name))))
        tickets.append(add(engine, asked, drafts=chance.random() < 0.2))
        for _ in range(chance.choice((0, 1, 2))):
            engine.tick()
        if chance.random() < 0.7:
            engine.cancel(others.pop(chance.randrange(len(others))))
    engine.cancel(*others)
    finish(engine)
    for ticket, expected in zip(tickets, expected_of(name), strict=True):
        assert_finds(ticket, expected)
    if name in ("post-sinusoidal", "language-pre-learned"):
        assert sum(joined) > 5


def test_few_requests_share_their_steps() -> None:
    """Requests of equal options that come one after the other are few waves."""
    engine, most = joining_engine("post-sinusoidal"), 0
    for asked in asked_by_many("post-sinusoidal"):
        if not asked.query.prefix and asked.query.shortlist is None:
            engine.add(asked.query, SETTINGS[1])
            engine.tick()
            most = max(most, len(engine._waves._live))
    finish(engine)
    assert 1 <= most <= 3
