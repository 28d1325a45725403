"""Small random translators, and their searches in slots and by the reference."""

import random
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
import torch
from tests.shared.searching import search_texts

from heedful.config.model.transformer import TransformerModel
from heedful.decode.engine import Engine
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query, text_queries
from heedful.decode.scorer import SingleModel
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.lanes import SlotLanes
from heedful.decode.waves import Waves
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder
from heedful.models.protocols import Generator
from heedful.nn.kernels import without_kernels

VOCABULARY = 30
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # where there is one, steps are recorded


def model_of(sharpness: float = 2.0, **options: Any) -> EncoderDecoder:
    """A random model whose scores differ clearly, so that rounding decides nothing."""
    config = {"width": 16, "heads": 2, "layers": 2, "inner": 16, "dropout": 0.0} | options
    ends = torch.arange(VOCABULARY) % 3 == 0  # of words, where they are counted
    model = build_model(TransformerModel(**config), VOCABULARY, VOCABULARY, (ends, ends)).to(DEVICE).eval()
    with torch.no_grad():
        model.decoder.output.weight.mul_(sharpness)
    return model


def sources_of(count: int, longest: int = 9) -> list[list[int]]:
    chance = random.Random(count)
    return [[chance.randrange(4, VOCABULARY) for _ in range(chance.randint(1, longest))] for _ in range(count)]


def queries_of(sources: list[list[int]], settings: SearchSettings) -> list[Query]:
    return text_queries(sources, settings.max_extra)


def engine_in_slots(model: Generator, slots: int | None = None) -> Engine:
    """An engine that decodes in slots, with the usual numbers of them, or this one."""
    engine = Engine(SingleModel(model), in_slots=True)
    if slots is not None:
        lanes_of(engine).sizes = (slots,)
    return engine


def lanes_of(engine: Engine) -> SlotLanes:
    assert engine.slots is not None
    return engine.slots


def runners_of(engine: Engine) -> int:
    """How many sets of slots an engine keeps."""
    return sum(len(lane.runners) for lane in lanes_of(engine)._lanes.values())


def in_slots(
    model: EncoderDecoder, sources: list[list[int]], settings: SearchSettings, slots: int | None = None
) -> list[list[Hypothesis]]:
    return run_in_slots(engine_in_slots(model, slots), queries_of(sources, settings), settings)


def run_in_slots(engine: Engine, queries: Sequence[Query], settings: SearchSettings) -> list[list[Hypothesis]]:
    """Search in slots, and nowhere else."""
    with mock.patch.object(Waves, "take", side_effect=AssertionError("slots do not take this search")):
        return engine.run(queries, settings)


def search(
    model: EncoderDecoder, sources: list[list[int]], settings: SearchSettings, batch_tokens: int
) -> list[list[Hypothesis]]:
    """The reference."""
    with without_kernels():
        return search_texts(model, sources, settings, batch_tokens)


def assert_the_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[(h.tokens, h.complete) for h in nbest] for nbest in found] == [
        [(h.tokens, h.complete) for h in nbest] for nbest in expected
    ]
    for some, others in zip(found, expected, strict=True):
        assert [h.score for h in some] == pytest.approx([h.score for h in others], abs=1e-4)
        assert [h.log_probability for h in some] == pytest.approx([h.log_probability for h in others], abs=1e-4)
