"""Small random translators, and their searches in slots and by the reference."""

import random
from typing import Any

import pytest
import torch
from tests.shared.searching import search_texts

from heedful.config.model.transformer import TransformerModel
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query, text_queries
from heedful.decode.scorer import SingleModel
from heedful.decode.search import check_queries
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.search import SlotSearch
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder
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


def queries_of(model: EncoderDecoder, sources: list[list[int]], settings: SearchSettings) -> list[Query]:
    scorer = SingleModel(model)
    return check_queries(text_queries(sources, settings.max_extra), settings, scorer.vocab_size, scorer.longest)


def in_slots(
    model: EncoderDecoder, sources: list[list[int]], settings: SearchSettings, batch_tokens: int = 4096
) -> list[list[Hypothesis]]:
    sentences = queries_of(model, sources, settings)
    finder = SlotSearch(model)
    assert finder.takes(settings, sentences)
    return finder(sentences, settings, batch_tokens, lambda ready: None)


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
