"""Search in slots finds what the reference search finds, whatever waits, stands still or is replaced beside it."""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from tests.shared.covering import in_turn
from tests.shared.refusals import refuses
from tests.unit.decode.slots.small_searches import (
    assert_the_same,
    engine_in_slots,
    in_slots,
    lanes_of,
    model_of,
    queries_of,
    run_in_slots,
    runners_of,
    search,
    sources_of,
)

from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import UNKNOWN
from heedful.decode.hypothesis import Hypothesis, Shifted, Wu
from heedful.decode.query import text_queries
from heedful.decode.settings import SearchSettings
from heedful.decode.slots import encoder, lanes
from heedful.decode.slots.lanes import SlotLanes
from heedful.models.transformer.slots import SlotDecoder, SlotShape

OPTIONS: list[dict[str, Any]] = [
    {"beam": 1},
    {"beam": 1, "min_length": 4},
    {"beam": 2},
    {"beam": 4},
    {"beam": 4, "nbest": 3},
    {"beam": 5, "penalty": Wu(2.0)},
    {"beam": 3, "penalty": Shifted(1.0), "min_length": 3},
    {"beam": 3, "never": (7, 8, 9, 10)},
    {"beam": 4, "max_extra": 1, "nbest": 4},
    {"beam": 1, "sampling": Sampling(seed=3)},
    {"beam": 1, "sampling": Sampling(0.7, top_k=9, top_p=0.9, min_p=0.05), "min_length": 3},
]


@pytest.mark.parametrize(("options", "norm"), in_turn(OPTIONS, ["pre", "post"]), ids=str)
def test_finds_what_the_reference_finds(norm: str, options: dict[str, Any]) -> None:
    settings = SearchSettings(**{"max_extra": 6} | options)
    model, sources = model_of(norm=norm), sources_of(12)
    assert_the_same(in_slots(model, sources, settings), search(model, sources, settings, 4096))


@pytest.mark.parametrize("beam", [1, 3])
def test_few_slots_serve_many_sentences_one_after_the_other(beam: int) -> None:
    """One slot, or two: every sentence but the first takes a place where another stood."""
    settings, model, sources = SearchSettings(beam=beam, max_extra=5), model_of(), sources_of(9)
    expected = search(model, sources, settings, 4096)
    for slots in (1, 2):
        assert_the_same(in_slots(model, sources, settings, slots), expected)


def test_classes_of_length_and_of_memories_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories are encoded a few at a time, in buffers of several sizes."""
    monkeypatch.setattr(encoder, "_LARGEST", 64)
    settings, model, sources = SearchSettings(beam=3, max_extra=4), model_of(), sources_of(8, longest=30)
    engine = engine_in_slots(model)
    lanes_of(engine).smallest = 8
    found = run_in_slots(engine, queries_of(sources, settings), settings)
    assert len(lanes_of(engine).runners()) > 1
    assert_the_same(found, search(model, sources, settings, 4096))


def test_the_same_buffers_serve_again_and_forget_what_was_there() -> None:
    settings, model = SearchSettings(beam=3, max_extra=6), model_of()
    engine = engine_in_slots(model)
    for count in (5, 4):
        sources = sources_of(count)
        found = run_in_slots(engine, queries_of(sources, settings), settings)
        assert_the_same(found, search(model, sources, settings, 4096))


def test_changed_weights_change_the_result() -> None:
    settings, model, sources = SearchSettings(beam=2, max_extra=6), model_of(), sources_of(6)
    engine, queries = engine_in_slots(model), queries_of(sources, settings)
    run_in_slots(engine, queries, settings)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    assert_the_same(run_in_slots(engine, queries, settings), search(model, sources, settings, 4096))


def test_learned_positions_end_a_sentence() -> None:
    settings, model = SearchSettings(beam=2, max_extra=50), model_of(positions="learned", max_positions=8)
    with torch.no_grad():
        model.decoder.output.weight[2] = 0  # hardly ever ends
    sources = [[5, 6, 7], [8]]
    assert_the_same(in_slots(model, sources, settings), search(model, sources, settings, 4096))


@pytest.mark.parametrize("beam", [1, 3])
def test_rotary_positions_are_each_slots_own(beam: int) -> None:
    """Few slots: sentences begin while others are under way."""
    settings, model, sources = SearchSettings(beam=beam, max_extra=6), model_of(positions="rope"), sources_of(9)
    assert_the_same(in_slots(model, sources, settings, 2), search(model, sources, settings, 4096))


@pytest.mark.parametrize("positions", ["alibi", "relative"])
def test_positions_that_add_to_scores_are_left_to_the_reference(positions: str) -> None:
    model, settings = model_of(positions=positions), SearchSettings()
    assert not SlotLanes(model).takes(settings)
    assert search(model, sources_of(3), settings, 4096)
    assert isinstance(model.decoder, SlotDecoder)
    with refuses("a decoder whose attention adds to scores by position does not decode in slots", ValueError):
        model.decoder.slots(SlotShape(slots=1, beams=1, room=8, memory=8))


def test_progress_counts_every_sentence() -> None:
    settings, model, ready = SearchSettings(beam=2, max_extra=3), model_of(), list[int]()
    engine = engine_in_slots(model, slots=2)
    engine.run(queries_of(sources_of(9), settings), settings, progress=ready.append)
    assert sum(ready) == 9
    assert len(ready) > 1


@pytest.mark.parametrize(
    "settings",
    [
        SearchSettings(beam=1, sampling=Sampling(samples=2)),
        SearchSettings(coverage=0.2),
        SearchSettings(aligned=True),
    ],
    ids=["samples", "coverage", "aligned"],
)
def test_what_cannot_be_recorded_is_left_to_the_reference(settings: SearchSettings) -> None:
    assert not SlotLanes(model_of()).takes(settings)


def test_wide_beams_and_wide_heads_are_left_to_the_reference() -> None:
    assert SlotLanes(model_of()).takes(SearchSettings(beam=64))
    assert not SlotLanes(model_of()).takes(SearchSettings(beam=65))
    assert SlotLanes(model_of(width=256, heads=2)).takes(SearchSettings())  # 128 floats a head
    assert not SlotLanes(model_of(width=512, heads=2)).takes(SearchSettings())


@pytest.mark.parametrize("beam", [1, 3])
def test_scores_that_are_not_numbers_end_a_sentence(beam: int) -> None:
    model, settings = model_of(), SearchSettings(beam=beam, max_extra=4)
    with torch.no_grad():
        model.decoder.output.weight.fill_(math.nan)
    assert in_slots(model, sources_of(3), settings) == [[Hypothesis((), 0.0, 0.0, complete=False)]] * 3


def test_threads_share_a_model_without_mixing_their_sentences() -> None:
    model, settings = model_of(), SearchSettings(beam=2, max_extra=5)
    engine, parts = engine_in_slots(model), [sources_of(count) for count in (5, 6, 7, 8)]
    expected = [search(model, part, settings, 4096) for part in parts]

    def found(part: list[list[int]]) -> list[list[Hypothesis]]:
        return engine.run(queries_of(part, settings), settings)

    with ThreadPoolExecutor(4) as threads:
        for some, others in zip(threads.map(found, parts), expected, strict=True):
            assert_the_same(some, others)


def test_buffers_beyond_the_bound_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of()
    for share, kept in ((0.5, 3), (1e-9, 1)):
        engine = engine_in_slots(model)
        monkeypatch.setattr(lanes, "_HELD", share)
        for beam in (1, 2, 3):
            settings = SearchSettings(beam=beam, max_extra=5)
            run_in_slots(engine, queries_of(sources_of(3), settings), settings)
        assert runners_of(engine) == kept


def test_prefixes_with_tokens_that_are_never_output_are_left_to_the_reference() -> None:
    model, settings = model_of(), SearchSettings(never=(7,))
    for prefix, taken in (([6], True), ([6, 7], False), ([UNKNOWN], False)):
        _, query = text_queries([[5], [5]], settings.max_extra, [[], prefix])
        assert SlotLanes(model).takes_prefix(query, settings) is taken
