"""Options of single requests make no further recordings: a server that knows them all records nothing any more."""

import random
from typing import Any

import pytest
from tests.unit.decode.engine.mixed import Asked, add, assert_finds, finish, found_alone, scorer_of
from tests.unit.decode.slots.small_searches import engine_in_slots, lanes_of

from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.hypothesis import LengthPenalty, Shifted, Wu
from heedful.decode.query import DrawStart, Query
from heedful.decode.scorer import SingleModel
from heedful.decode.settings import SearchSettings
from heedful.decode.slots import lanes
from heedful.decode.slots.lanes import SlotLanes
from heedful.decode.slots.runner import SlotRunner
from heedful.decode.waves import Waves

TICKETS = 120
MOST = 8  # recordings: steps of four kinds of search, and encodings


def random_request(chance: random.Random, continues: bool, number: int) -> Asked:
    penalty: LengthPenalty = Wu(chance.random() * 2)
    if chance.random() < 0.3:
        penalty = Shifted(chance.random(), chance.random())
    options: dict[str, Any] = {"penalty": penalty, "min_length": chance.randrange(3), "max_extra": chance.randint(3, 9)}
    match chance.randrange(4):
        case 0:
            options |= {"beam": 3}
        case 1:
            temperature, least = chance.uniform(0.2, 2), chance.random() / 4
            options |= {"beam": 1, "sampling": Sampling(temperature, seed=chance.getrandbits(60), min_p=least)}
        case 2:
            top_k, top_p = chance.choice((0, 3, 9)), chance.uniform(0.1, 0.99)
            options |= {"beam": 1, "sampling": Sampling(top_k=top_k, top_p=top_p, seed=chance.getrandbits(60))}
        case _:
            options |= {"beam": 1}
    tokens = [chance.randrange(4, 24) for _ in range(chance.randint(1, 6))]
    source = [BEGIN, *tokens] if continues else [*tokens, END]
    limit = 4 + chance.randrange(5)
    return Asked(Query(source, limit, (), number, DrawStart(chance.getrandbits(50))), SearchSettings(**options))


@pytest.mark.parametrize("name", ["language-rope", pytest.param("post-sinusoidal", marks=pytest.mark.wide)])
def test_recordings_are_bounded_whatever_the_options_of_requests(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer, chance, made = scorer_of(name), random.Random(4), list[int]()
    assert isinstance(scorer, SingleModel)
    engine, real = engine_in_slots(scorer.model), SlotRunner.__init__

    def counts(*call: Any) -> None:
        made.append(1)
        real(*call)

    monkeypatch.setattr(SlotRunner, "__init__", counts)
    monkeypatch.setattr(Waves, "take", lambda self, ticket: pytest.fail("slots do not take it"))
    lanes_of(engine).sizes = (16,)
    asked = [random_request(chance, scorer.continues, number) for number in range(TICKETS)]
    tickets = []
    for number, one in enumerate(asked):
        tickets.append(add(engine, one))
        if not number % 6:
            engine.tick()
        if number == TICKETS // 2:
            half = lanes_of(engine).recordings
    finish(engine)
    assert len(made) == 4
    assert lanes_of(engine).recordings == half <= MOST
    monkeypatch.undo()
    for number in range(0, TICKETS, 4):
        assert_finds(tickets[number], found_alone(scorer, asked[number]))


def test_more_tickets_at_once_take_more_slots_of_a_few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then again the smallest that is enough: few slots have the fastest steps."""
    scorer = scorer_of("language-rope")
    assert isinstance(scorer, SingleModel)
    engine, settings, chosen = engine_in_slots(scorer.model), SearchSettings(beam=1), list[int]()
    lanes_of(engine).sizes = (2, 4, 8)
    real = SlotLanes._choose

    def notes(*call: Any) -> SlotRunner:
        runner = real(*call)
        chosen.append(runner.shape.slots)
        return runner

    monkeypatch.setattr(SlotLanes, "_choose", notes)
    for count in (1, 2, 3, 20, 1):
        before = len(chosen)
        engine.run([Query([BEGIN, 5, number % 9 + 4], 5, (), number) for number in range(count)], settings)
        assert chosen[before] == {1: 2, 2: 2, 3: 4}.get(count, 8)
    assert [runner.shape.slots for runner in lanes_of(engine).runners()] == [2, 4, 8]


def test_where_memory_is_short_there_are_fewer_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = scorer_of("language-rope")
    assert isinstance(scorer, SingleModel)
    engine, settings = engine_in_slots(scorer.model), SearchSettings(beam=1)
    queries = [Query([BEGIN, 5, number % 9 + 4], 5, (), number) for number in range(20)]
    monkeypatch.setattr(lanes, "free_memory", lambda device: 1)
    found = engine.run(queries, settings)
    assert [runner.shape.slots for runner in lanes_of(engine).runners()] == [1]
    monkeypatch.undo()
    assert [best.tokens for (best,) in found] == [
        best.tokens for (best,) in engine_in_slots(scorer.model).run(queries, settings)
    ]
