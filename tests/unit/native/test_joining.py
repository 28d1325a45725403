"""Sentences that join others in the kernels' memory: each gets the bits that it gets alone."""

import random
from pathlib import Path

import pytest

import heedful
from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.engine import Engine
from heedful.decode.query import Query
from heedful.decode.scorer import SingleModel
from heedful.decode.settings import SearchSettings
from heedful.native.decoder import NativeDecoder, NativeState
from heedful.native.library import library

BUNDLES = Path(__file__).parents[2] / "golden/bundles"
SETTINGS = (SearchSettings(beam=3, nbest=2), SearchSettings(beam=1), SearchSettings(beam=1, sampling=Sampling(seed=2)))

pytestmark = pytest.mark.skipif(library() is None, reason="there are no kernels here")


def scorer_of(name: str) -> SingleModel:
    model = heedful.load(BUNDLES / name, "cpu", "int8")
    model.network.eval()
    scorer = SingleModel(model.network)
    assert isinstance(scorer.decoder, NativeDecoder)
    return scorer


def queries_of(scorer: SingleModel, count: int) -> list[Query]:
    """Sources of very different lengths: regions of the memory and caches must grow."""
    chance = random.Random(7)
    found = []
    for number in range(count):
        length = chance.choice((2, 5, 9)) if number % 9 else 70
        if scorer.continues:
            length = min(length, 12)
        tokens = [chance.randrange(4, 24) for _ in range(length)]
        found.append(Query([BEGIN, *tokens] if scorer.continues else [*tokens, END], 8, (), number))
    return found


@pytest.mark.parametrize("name", ["transformer", "transformer-pre-norm-rope-separate", "language-llama"])
@pytest.mark.parametrize("settings", SETTINGS, ids=["beam", "greedy", "sampling"])
def test_sentences_that_join_late_get_the_bits_that_they_get_alone(name: str, settings: SearchSettings) -> None:
    scorer, chance = scorer_of(name), random.Random(1)
    queries = queries_of(scorer, 40)
    alone = [Engine(scorer).run([query], settings)[0] for query in queries]
    engine, tickets, others, states = Engine(scorer), [], [], set[int]()
    engine.join_waves()
    for query in queries:
        tickets.append(engine.add(query, settings))
        others.append(engine.add(chance.choice(queries), settings))
        for _ in range(chance.choice((0, 1, 3))):
            engine.tick()
        engine.cancel(others.pop(chance.randrange(len(others))))
        for live in engine._waves._live:
            assert isinstance(live.wave._state, NativeState)
            states.add(len(live.wave._state.starts))
    while not engine.idle:
        engine.tick()
    for ticket, expected in zip(tickets, alone, strict=True):
        assert ticket.found == expected
    if settings is SETTINGS[0]:
        assert max(states) >= 16  # slots were made for others


def test_a_model_computes_the_same_after_others_have_used_the_buffers() -> None:
    """Another model of the same widths writes to columns that fill up those of this one."""
    scorer = scorer_of("transformer-pre-norm-rope-separate")
    queries = queries_of(scorer, 12)
    before = Engine(scorer).run(queries, SETTINGS[0])
    language = scorer_of("language-llama")
    Engine(language).run(queries_of(language, 12), SETTINGS[0])
    assert Engine(scorer).run(queries, SETTINGS[0]) == before
    assert [Engine(scorer).run([query], SETTINGS[0])[0] for query in queries] == before
