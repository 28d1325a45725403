"""Threads share a scorer: each gets what it would get alone, whoever ticks."""

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
from tests.unit.decode.engine.mixed import (
    Asked,
    all_alone,
    asked_of,
    assert_finds,
    assert_same,
    finish,
    found_alone,
    scorer_of,
)
from tests.unit.decode.slots.small_searches import engine_in_slots, lanes_of

from heedful.decode.engine import Engine, engine_of
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.scorer import Ensemble, Scorer, SingleModel
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.greedy import GreedyInSlots
from heedful.decode.waves import Wave
from heedful.explain.capture import silence_heads
from heedful.nn.evaluation_mode import by_equation

THREADS = 8
NAME = "post-sinusoidal"
GREEDY = SearchSettings(beam=1, min_length=5)
KINDS = [("post-sinusoidal", False), ("post-sinusoidal", True), ("ensemble", False), ("language-rope", True)]


@pytest.fixture(autouse=True)
def often_switched() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def shared(name: str, in_slots: bool) -> Scorer:
    """A scorer that has not been used yet, whose engine decodes in slots where it can, if asked."""
    known = scorer_of(name)
    if isinstance(known, Ensemble):
        return Ensemble(list(known.models)).eval()  # type: ignore[arg-type]
    scorer = SingleModel(known.model)
    if in_slots:
        vars(scorer)["_engine"] = engine_in_slots(scorer.model)
    return scorer


def in_threads(*works: Callable[[], None]) -> list[BaseException | None]:
    """Do all at the same time; return what each raised."""
    raised: list[BaseException | None] = [None] * len(works)
    start = threading.Barrier(len(works))

    def work(number: int) -> None:
        start.wait()
        try:
            works[number]()
        except BaseException as error:
            raised[number] = error

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    return raised


@pytest.mark.parametrize(("name", "in_slots"), KINDS)
def test_every_answer_equals_the_answer_alone(name: str, in_slots: bool) -> None:
    """Calls of all kinds, of one query and of several, with results in the order of the queries."""
    scorer, asked, expected = shared(name, in_slots), asked_of(name, seed=1), all_alone(name, seed=1)

    def work(seed: int) -> Callable[[], None]:
        chance = random.Random(seed)

        def calls() -> None:
            for number in chance.sample(range(len(asked)), 6):
                one, ready = asked[number], list[int]()
                count = chance.choice((1, 2))
                found = search(scorer, [one.query] * count, one.settings, one.batch_tokens, ready.append)
                assert sum(ready) == len(found) == count
                for some in found:
                    assert_same(some, expected[number])

        return calls

    assert in_threads(*map(work, range(THREADS))) == [None] * THREADS
    assert engine_of(scorer).idle


def test_threads_that_are_the_first_share_one_engine() -> None:
    for _ in range(20):
        scorer, engines = shared(NAME, False), list[Engine]()
        in_threads(*[partial(_note_engine, scorer, engines)] * 4)
        assert len(set(engines)) == 1
        assert engine_of(scorer) is engines[0]


def _note_engine(scorer: Scorer, engines: list[Engine]) -> None:
    engines.append(engine_of(scorer))


@pytest.mark.parametrize("in_slots", [False, True])
def test_an_error_reaches_the_threads_that_wait_for_it_and_later_calls_work(
    in_slots: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer, chance = shared(NAME, in_slots), random.Random(3)
    where: type = GreedyInSlots if in_slots else Wave
    name = "grow" if in_slots else "step"
    real: Callable[..., Any] = getattr(where, name)
    queries = [Query([5, 9, 4 + number, 2], 9, (), number) for number in range(THREADS)]
    expected = [found_alone(scorer, Asked(query, GREEDY)) for query in queries]

    def fails(*given: Any) -> Any:
        if chance.random() < 0.2:
            raise RuntimeError("out of memory")
        return real(*given)

    monkeypatch.setattr(where, name, fails)
    results: dict[int, list[Hypothesis]] = {}

    def work(number: int) -> Callable[[], None]:
        def call() -> None:
            (results[number],) = search(scorer, [queries[number]], GREEDY, 4096)

        return call

    raised = in_threads(*map(work, range(THREADS)))
    assert {type(error) for error in raised} <= {RuntimeError, type(None)}
    assert any(raised)
    for number, found in results.items():
        assert_same(found, expected[number])
    monkeypatch.undo()
    assert engine_of(scorer).idle
    for query, found in zip(queries, expected, strict=True):
        assert_same(search(scorer, [query], GREEDY, 4096)[0], found)


@pytest.mark.parametrize("in_slots", [False, True])
def test_whoever_waits_longest_ticks_where_nobody_does(in_slots: bool) -> None:
    """A thread that is done stops ticking: the others finish by themselves."""
    scorer = shared(NAME, in_slots)
    lengths = (2, 25, 9)
    works = []
    for number, length in enumerate(lengths):
        settings = SearchSettings(beam=1, min_length=length)

        def call(settings: SearchSettings = settings, number: int = number) -> None:
            query = Query([5, 9, 4 + number, 2], 30, (), number)
            assert_same(search(scorer, [query], settings, 4096)[0], found_alone(scorer, Asked(query, settings)))

        works.append(call)
    assert in_threads(*works) == [None] * 3


def test_a_model_that_changes_between_the_calls_of_two_threads_loses_no_ticket() -> None:
    """What was recorded is forgotten, but never while another thread's ticket is under way."""
    scorer = scorer_of("language-rope")
    assert isinstance(scorer, SingleModel)
    engine = engine_in_slots(scorer.model)
    query = Query([1, 5, 9], 9)

    class Racing:
        """Weights as they were before, which another thread compares with at the worst moment."""

        ticket: Any = None

        def __ne__(self, other: object) -> bool:
            if self.ticket is None:
                self.ticket = "soon"
                self.ticket = engine.add(query, GREEDY)
                engine.work()
            return True

        __hash__ = None  # type: ignore[assignment]

    assert engine.slots is not None
    engine.slots._weights = racing = Racing()  # type: ignore[assignment]
    (found,) = engine.run([query], GREEDY)
    finish(engine)
    assert_finds(racing.ticket, found)


def test_whether_an_engine_is_idle_may_be_asked_while_another_thread_ticks() -> None:
    """Kinds of searches that the engine has not seen yet may join at any moment."""
    scorer = scorer_of("language-rope")
    assert isinstance(scorer, SingleModel)
    slots = lanes_of(engine_in_slots(scorer.model))

    class Joined:
        """A lane, at which the other thread is faster."""

        busy = ()

        @property
        def waiting(self) -> bool:
            slots._lanes[len(slots._lanes)] = Joined()  # type: ignore[assignment]
            return len(slots._lanes) > 9

    slots._lanes["first"] = Joined()  # type: ignore[assignment]
    assert slots.idle


# --- a thread that looks at what the network computes, or changes it --------------------------------------------------


BLOCKS: dict[str, Callable[[Any], AbstractContextManager[None]]] = {
    "silenced": lambda network: silence_heads(network, [("cross", 1, 0)]),
    "by equation": lambda network: by_equation(),
}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("in_slots", [False, True])
def test_searches_of_a_thread_that_changes_what_is_computed_run_by_themselves(block: str, in_slots: bool) -> None:
    scorer = shared(NAME, in_slots)
    assert isinstance(scorer, SingleModel)
    queries = [Query([5, 9, 4 + number, 2], 12, (), number) for number in range(4)]
    plain = [found_alone(scorer, Asked(query, GREEDY)) for query in queries]
    waiting = engine_of(scorer).add(queries[0], GREEDY, drafts=True)
    with BLOCKS[block](scorer.model):
        changed = [found_alone(scorer, Asked(query, GREEDY)) for query in queries]
        found = search(scorer, queries, GREEDY, 4096)
    for some, others in zip(found, changed, strict=True):
        assert_same(some, others)
    assert not waiting.done
    assert waiting.draft == ()
    if block == "silenced":
        assert [best.log_probability for (best,) in changed] != [best.log_probability for (best,) in plain]
    finish(engine_of(scorer))
    assert_finds(waiting, plain[0])


@pytest.mark.parametrize("in_slots", [False, True])
def test_threads_with_and_without_silenced_heads_do_not_mix(in_slots: bool) -> None:
    scorer = shared(NAME, in_slots)
    assert isinstance(scorer, SingleModel)
    model, queries = scorer.model, [Query([5, 9, 4 + number, 2], 12, (), number) for number in range(4)]
    plain = [found_alone(scorer, Asked(query, GREEDY)) for query in queries]
    with silence_heads(model, [("cross", 0, 1)]):
        silenced = [found_alone(scorer, Asked(query, GREEDY)) for query in queries]
    assert [best.log_probability for (best,) in silenced] != [best.log_probability for (best,) in plain]

    def silent() -> None:
        for query, expected in zip(queries, silenced, strict=True):
            with silence_heads(model, [("cross", 0, 1)]):
                assert_same(search(scorer, [query], GREEDY, 4096)[0], expected)

    def usual() -> None:
        for query, expected in zip(queries, plain, strict=True):
            assert_same(search(scorer, [query], GREEDY, 4096)[0], expected)

    def written_out() -> None:
        for query, expected in zip(queries, plain, strict=True):
            with by_equation():
                assert_same(search(scorer, [query], GREEDY, 4096)[0], expected)

    assert in_threads(silent, usual, written_out, silent, usual, usual) == [None] * 6
