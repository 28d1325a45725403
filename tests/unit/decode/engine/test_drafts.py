"""Drafts: the best tokens so far of a query, which are shown at every tick to whoever asks for them."""

from dataclasses import replace

import pytest
from tests.models.language import WORDS
from tests.unit.decode.engine.mixed import (
    OPTIONS,
    Asked,
    add,
    asked_of,
    assert_finds,
    engine_of_kind,
    found_alone,
    scorer_of,
)
from tests.unit.decode.slots.small_searches import lanes_of

from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import END, PAD
from heedful.decode.engine import BUDGET, Engine
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.decode.ticket import Ticket

KINDS = pytest.mark.parametrize(
    ("name", "in_slots"),
    [
        ("post-sinusoidal", False),
        ("post-sinusoidal", True),
        ("language-rope", True),
        *(pytest.param(name, False, marks=pytest.mark.wide) for name in ("language-rope", "bahdanau-gru", "ensemble")),
    ],
)


def drafts_of(engine: Engine, ticks: int = 500) -> dict[Ticket, list[list[int]]]:
    """Tick to the end; return all drafts of each ticket."""
    drafts: dict[Ticket, list[list[int]]] = {}
    for _ in range(ticks):
        if engine.idle:
            return drafts
        for event in engine.tick():
            if event.kind == "draft":
                drafts.setdefault(event.ticket, []).append(list(event.ticket.draft))
    raise AssertionError("the engine does not come to an end")


@KINDS
def test_drafts_of_a_single_row_grow_by_the_tokens_that_are_found(name: str, in_slots: bool) -> None:
    """Slots take a few steps in a tick, waves one."""
    engine = engine_of_kind(name, in_slots)
    asked = [one for one in asked_of(name, seed=1) if one.settings.rows == 1]
    tickets = [add(engine, one, drafts=True) for one in asked]
    drafts = drafts_of(engine)
    assert len(tickets) > 5
    assert any(len(drafts.get(ticket, ())) > 2 for ticket in tickets)
    for ticket, one in zip(tickets, asked, strict=True):
        assert_finds(ticket, found_alone(scorer_of(name), one))
        assert ticket.found is not None
        tokens, shown = list(ticket.found[0].tokens), drafts.get(ticket, [])
        lengths = [len(draft) for draft in shown]
        assert shown == [tokens[:length] for length in lengths]
        assert lengths == sorted(lengths)
        waves = not in_slots or not lanes_of(engine).takes(one.settings)
        if waves:  # one more in each tick; the last one ends the search
            assert lengths == list(range(1, len(lengths) + 1))
            assert len(lengths) >= len(tokens) - 1


@KINDS
def test_drafts_of_beams_and_of_several_samples_are_tokens(name: str, in_slots: bool) -> None:
    engine = engine_of_kind(name, in_slots)
    asked = [one for one in asked_of(name, seed=1) if one.settings.rows > 1]
    tickets = [add(engine, one, drafts=True) for one in asked]
    drafts = drafts_of(engine)
    assert len(drafts) > 3
    for ticket, one in zip(tickets, asked, strict=True):
        assert_finds(ticket, found_alone(scorer_of(name), one))
        for draft in drafts.get(ticket, ()):
            assert all(PAD != token != END and 0 <= token < WORDS for token in draft)
            assert len(draft) <= one.query.limit
            assert draft[: len(one.query.prefix)] == list(one.query.prefix)[: len(draft)]


def test_a_beam_shows_its_best_hypothesis() -> None:
    """Where nothing ends before the limit, the last draft but one is the start of one of those that are found."""
    source, settings = [5, 9, 2], SearchSettings(beam=4, nbest=4, min_length=8)
    for in_slots in (False, True):
        engine = engine_of_kind("post-sinusoidal", in_slots)
        ticket = engine.add(Query(source, 9), settings, drafts=True)
        *_, last = drafts_of(engine)[ticket]
        assert ticket.found is not None
        assert tuple(last) in {best.tokens[: len(last)] for best in ticket.found}
        assert len(last) > 3


@KINDS
def test_who_does_not_ask_for_drafts_gets_none(name: str, in_slots: bool) -> None:
    """Also next to one who does, in the same wave."""
    engine = engine_of_kind(name, in_slots)
    first, second = (replace(one, batch_tokens=BUDGET) for one in asked_of(name, seed=1)[:2])
    asking, quiet = add(engine, first, drafts=True), [add(engine, one) for one in (first, second)]
    drafts = drafts_of(engine)
    assert set(drafts) <= {asking}
    assert [ticket.draft for ticket in quiet] == [(), ()]


@KINDS
@pytest.mark.parametrize(
    "options", [OPTIONS[2], pytest.param({"beam": 1, "sampling": Sampling(seed=4)}, marks=pytest.mark.wide)], ids=str
)
def test_who_joins_a_busy_engine_has_its_first_token_after_two_ticks(
    name: str, in_slots: bool, options: dict[str, object]
) -> None:
    engine = engine_of_kind(name, in_slots)
    for one in asked_of(name, seed=1)[:6]:
        limit = one.query.limit + 20
        add(engine, Asked(replace(one.query, limit=limit), replace(one.settings, min_length=limit - 9)))
        engine.tick()
    assert not engine.idle
    source = [1, 7, 8] if scorer_of(name).continues else [7, 8, 2]
    ticket = engine.add(Query(source, 30), SearchSettings(**options, min_length=20), drafts=True)  # type: ignore[arg-type]
    engine.tick()
    engine.tick()
    assert len(ticket.draft) > 0
