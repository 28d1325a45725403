"""What an engine leaves behind, however many queries have come and gone: nothing."""

import gc
import random
import sys
import threading
import weakref
from collections import Counter
from pathlib import Path

import pytest
import torch
from tests.unit.decode.engine.mixed import finish, scorer_of
from tests.unit.decode.slots.small_searches import engine_in_slots, lanes_of

from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import BEGIN
from heedful.decode.constraints.tokens import PenaliseRepetition
from heedful.decode.engine import Engine, engine_of
from heedful.decode.hypothesis import Hypothesis, Wu
from heedful.decode.query import Query
from heedful.decode.scorer import Ensemble, Scorer, SingleModel
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.decode.slots import lanes
from heedful.decode.ticket import Group, Ticket

NAME = "language-rope"
TICKETS = 2000


def come_and_go(engine: Engine, count: int, chance: random.Random) -> None:
    """Ask for many targets, and cancel most of them at some time."""
    under_way: list[Ticket] = []
    for first in range(0, count, 20):
        sampling = Sampling(chance.uniform(0.5, 2), seed=first) if first % 3 else None
        settings = SearchSettings(beam=1, penalty=Wu(chance.random()), sampling=sampling)
        queries = [
            Query([BEGIN, *(chance.randrange(4, 20) for _ in range(chance.randint(1, 4)))], 4, (), number)
            for number in range(first, first + 20)
        ]
        under_way += engine.add_all(queries, settings, drafts=not first % 7)
        if not first % 60:
            engine.tick()
        chance.shuffle(under_way)
        engine.cancel(*under_way[: -len(under_way) // 10])
        under_way = under_way[-len(under_way) // 10 :]
    finish(engine)


def live() -> Counter[type]:
    """Objects of an engine, and tensors, that there are."""
    gc.collect()
    kinds = (Ticket, Group, Query, SearchSettings, Hypothesis, torch.Tensor)
    return Counter(type(one) for one in gc.get_objects() if type(one) in kinds)


def open_files() -> int:
    gc.collect()  # other tests may have left some, which would be closed later
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


@pytest.mark.parametrize("in_slots", [False, True])
def test_thousands_that_come_and_go_leave_no_thread_no_file_no_slot_and_no_memory(in_slots: bool) -> None:
    scorer, chance = scorer_of(NAME), random.Random(5)
    assert isinstance(scorer, SingleModel)
    engine = engine_in_slots(scorer.model, slots=16) if in_slots else Engine(scorer, in_slots=False)
    come_and_go(engine, TICKETS // 10, chance)  # buffers and caches are there from now on
    threads, files, objects, blocks = threading.active_count(), open_files(), live(), sys.getallocatedblocks()
    come_and_go(engine, TICKETS, chance)
    left = live()
    assert engine.idle
    assert threading.active_count() <= threads
    assert open_files() <= files
    left.subtract(objects)
    assert {kind: count for kind, count in left.items() if count > 0} == {}
    assert sys.getallocatedblocks() - blocks < TICKETS  # of memory: a ticket alone has a dozen
    if in_slots:
        for runner in lanes_of(engine).runners():
            assert sorted(runner._free) == list(range(16))


def test_what_was_made_for_rules_of_single_requests_goes_when_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request has a rule that no other has: what is recorded for it is of no use to others."""
    scorer = scorer_of(NAME)
    assert isinstance(scorer, SingleModel)
    monkeypatch.setattr(lanes, "_HELD", 1e-9)
    engine = engine_in_slots(scorer.model, slots=2)
    for number in range(9):
        settings = SearchSettings(beam=1, constraints=(PenaliseRepetition(1.1 + number),))
        engine.run([Query([BEGIN, 5], 4)], settings)
    assert len(lanes_of(engine).runners()) == 1
    assert len(lanes_of(engine)._lanes) == 1


@pytest.mark.parametrize("kind", ["model", "model in slots", "ensemble"])
def test_an_engine_goes_with_the_scorer_that_has_it(kind: str) -> None:
    """At once, not when garbage is collected: it may have most of the memory of a GPU."""
    known = scorer_of(NAME)
    assert isinstance(known, SingleModel)
    scorer: Scorer = SingleModel(known.model)
    if kind == "ensemble":
        scorer = Ensemble([known.model, known.model])  # type: ignore[arg-type]
    if kind == "model in slots":
        vars(scorer)["_engine"] = Engine(SingleModel(known.model), in_slots=True)
    search(scorer, [Query([BEGIN, 5], 4)], SearchSettings(beam=2), 4096)
    gc.collect()
    gc.disable()
    try:
        gone = weakref.ref(engine_of(scorer))
        assert gone() is not None
        del scorer
        assert gone() is None
    finally:
        gc.enable()
