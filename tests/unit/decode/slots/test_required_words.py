"""Required words in slots: what the reference finds, whichever words the sentences before had."""

import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from tests.shared.refusals import refuses
from tests.unit.decode.slots.small_searches import (
    VOCABULARY,
    assert_the_same,
    engine_in_slots,
    model_of,
    queries_of,
    run_in_slots,
    runners_of,
    sources_of,
)

from heedful.config.decode import Sampling
from heedful.config.tokenizer import Bpe
from heedful.data.tokenize.tokenizer import END
from heedful.data.tokenize.training import train_tokenizer
from heedful.decode.constraints.tokens import PenaliseRepetition
from heedful.decode.constraints.words.automaton import WordAutomaton
from heedful.decode.constraints.words.in_slots import words
from heedful.decode.constraints.words.planner import WordPlanner
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.models.networks import EncoderDecoder
from heedful.nn.kernels import without_kernels

TEXTS = ["abc ab bc a b", "cab cab abc , ac", "bca ab . ab bc", "a cab - b abc"]
RULES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("abc",), ()),
    ((), ()),
    (("ab", "bc a"), ()),  # a phrase; the last word of one begins the other
    (("cab", "ab", "b ."), ("a",)),
    ((), ("b", "ab")),
    (("ab bc", "bc ab"), ()),  # phrases that overlap
    (("a", "b", "c", "ab"), ("abc",)),
    (("ac",), ("b", "bc")),
]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "late": {"beam": 1, "min_length": 6, "never": (5, *range(23, 30))},
    "beam": {"beam": 4, "nbest": 4},
    "narrow": {"beam": 2, "no_repeat": 3, "min_length": 7},
    "wide": {"beam": 7, "nbest": 2, "never": (9, 10)},
    "sampling": {"beam": 1, "sampling": Sampling(0.9, top_p=0.95, seed=4)},
}


@cache
def planner() -> WordPlanner:
    """Pieces of one to three letters, and signs; the model has a few tokens more than there are pieces."""
    return WordPlanner(train_tokenizer(Bpe(kind="bpe", size=VOCABULARY - 2), TEXTS * 3))


def automata_of(queries: list[Query], seed: int) -> dict[int, WordAutomaton]:
    chance = random.Random(seed)
    return {query.number: planner().plan(*chance.choice(RULES)) for query in queries}


def with_words(settings: SearchSettings, automata: dict[int, WordAutomaton]) -> SearchSettings:
    return replace(settings, constraints=(*settings.constraints, words(automata)))


def eager_model(eagerness: float = 3.0) -> EncoderDecoder:
    """A random model that would often end, so that words are missing at the end, and ends compete in the beam."""
    model = model_of()
    with torch.no_grad():
        model.decoder.output.weight[END].mul_(eagerness)
    return model


def reference(model: EncoderDecoder, queries: list[Query], settings: SearchSettings) -> list[list[Hypothesis]]:
    with without_kernels():
        return search(model, queries, settings, 4096)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.wide)])
@pytest.mark.parametrize("kind", SEARCHES)
def test_required_words_in_slots_find_what_the_reference_finds(kind: str, seed: int) -> None:
    """Few slots serve many sentences, and then those of another search with other words, from one recording."""
    torch.manual_seed(seed)
    model, plain = eager_model(-3.0 if seed == 1 else 3.0), SearchSettings(**SEARCHES[kind], max_extra=18)
    engine, queries = engine_in_slots(model, slots=2), queries_of(sources_of(9), plain)
    for number in range(2):
        automata = automata_of(queries, 10 * seed + number)
        settings = with_words(plain, automata)
        found = run_in_slots(engine, queries, settings)
        assert_the_same(found, reference(model, queries, settings))
        for query, nbest in zip(queries, found, strict=True):
            for hypothesis in nbest:
                if hypothesis.complete and max(hypothesis.tokens, default=0) < planner().spelling.size:
                    assert automata[query.number].accepts(hypothesis.tokens)
    assert runners_of(engine) == 1


@pytest.mark.parametrize("kind", SEARCHES)
def test_required_words_in_slots_come_after_prefixes_and_with_other_rules(kind: str) -> None:
    model, plain = (
        eager_model(),
        SearchSettings(**SEARCHES[kind], max_extra=22, constraints=(PenaliseRepetition(1.2),)),
    )
    pieces = random.Random(5)
    queries = [
        replace(query, prefix=[pieces.randrange(11, planner().spelling.size) for _ in range(query.number % 4)])
        for query in queries_of(sources_of(6), plain)
    ]
    settings = with_words(plain, automata_of(queries, 3))
    found = run_in_slots(engine_in_slots(model, slots=2), queries, settings)
    assert_the_same(found, reference(model, queries, settings))
    assert all(
        list(best.tokens[: query.number % 4]) == query.prefix for (best, *_), query in zip(found, queries, strict=True)
    )


def test_a_limit_without_room_for_the_words_is_refused_and_the_slots_serve_again() -> None:
    model, plain = model_of(), SearchSettings(beam=2, max_extra=18)
    queries, engine = queries_of(sources_of(4), plain), engine_in_slots(model)
    settings = with_words(plain, dict.fromkeys(range(4), planner().plan(("cab", "ab"), ())))
    with refuses("Sentence 3 must contain `cab`, `ab`, ... at most 2: require less or raise..."):
        run_in_slots(engine, [*queries[:2], replace(queries[2], limit=2)], settings)
    assert_the_same(run_in_slots(engine, queries, settings), reference(model, queries, settings))
