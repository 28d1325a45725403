"""Constraints in slots: what the reference finds under the same rules, whatever waits or is replaced in other slots.

Where there is a GPU, the steps are recorded.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from tests.models.language import language_model
from tests.shared.refusals import refuses
from tests.shared.searching import prompt_queries
from tests.unit.decode.constraints.words.vocabularies import smallest
from tests.unit.decode.slots.small_searches import (
    VOCABULARY,
    assert_the_same,
    engine_in_slots,
    lanes_of,
    model_of,
    queries_of,
    run_in_slots,
    runners_of,
    sources_of,
)

from heedful.config.decode import Sampling
from heedful.decode.constraints.protocol import ConstraintFactory
from heedful.decode.constraints.tokens import MinLength, NoRepeat, PenaliseRepetition
from heedful.decode.constraints.trees import Trees, TreeTokens
from heedful.decode.constraints.words.in_slots import words
from heedful.decode.engine import engine_of
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.scorer import SingleModel
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.lanes import SlotLanes
from heedful.models.protocols import Generator
from heedful.nn.kernels import without_kernels

TREES = Trees(TreeTokens(opening=[4, 5, 6], closing=[7, 8, 9], words=[10, 11]), VOCABULARY)
RULES: dict[str, tuple[ConstraintFactory, ...]] = {
    "trees": (TREES,),
    "repetition": (PenaliseRepetition(1.8),),
    "n-grams": (NoRepeat(2),),
    "forbidden words": (words(dict.fromkeys(range(99), smallest("bpe").plan((), ("ab", "b a")))),),
    "required words": (words(dict.fromkeys(range(99), smallest("bpe").plan(("ab",), ("b a",)))),),
    "all": (NoRepeat(1), TREES, PenaliseRepetition(1.3)),
}
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4, "nbest": 4},
    "sampling": {"beam": 1, "sampling": Sampling(0.9, top_p=0.95, seed=4)},
}


def sentences_of(count: int, settings: SearchSettings) -> list[Query]:
    """Sentences of few tokens; the first is taken for one without words."""
    queries = queries_of(sources_of(count), settings)
    return [replace(query, words=len(query.source) - 1 if query.number else 0) for query in queries]


def both(
    model: Generator, queries: list[Query], settings: SearchSettings, slots: int | None = None
) -> tuple[list[list[Hypothesis]], list[list[Hypothesis]]]:
    """What is found in slots, and by the reference."""
    with without_kernels():
        expected = search(model, queries, settings, 4096)
    return run_in_slots(engine_in_slots(model, slots), queries, settings), expected


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("kind", SEARCHES)
def test_constraints_in_slots_find_what_the_reference_finds(kind: str, rules: str) -> None:
    """Two slots: most sentences start where another has left, while others are under way."""
    settings = SearchSettings(**SEARCHES[kind], max_extra=6, constraints=RULES[rules])
    model = model_of()
    queries = sentences_of(6, settings)
    found, expected = both(model, queries, settings, slots=2)
    assert_the_same(found, expected)
    free = search(model, queries, replace(settings, constraints=()), 4096)
    assert [best.tokens for best, *_ in found] != [best.tokens for best, *_ in free]  # the rule matters


@pytest.mark.parametrize("beam", [1, 3])
def test_n_grams_of_settings_are_not_repeated_in_slots(beam: int) -> None:
    settings = SearchSettings(beam=beam, max_extra=20, no_repeat=1, min_length=8)
    model = model_of()
    assert_the_same(*both(model, sentences_of(5, settings), settings))


@pytest.mark.parametrize("kind", SEARCHES)
def test_prompts_count_as_repeated_in_slots(kind: str) -> None:
    model = language_model("rope")
    rules = (PenaliseRepetition(2.0), NoRepeat(2))
    settings = SearchSettings(**SEARCHES[kind], constraints=rules)
    queries = prompt_queries([[5, 9, 7], [], [4], [8, 8, 10, 11, 6, 6], [7] * 9], 12)
    assert_the_same(*both(model, queries, settings, slots=2))


@pytest.mark.parametrize("kind", SEARCHES)
def test_targets_start_with_their_prefixes_in_slots(kind: str) -> None:
    """Other rules apply after them; sentences without a prefix are decoded in other slots."""
    rules = (NoRepeat(1), PenaliseRepetition(1.5))
    settings = SearchSettings(**SEARCHES[kind], max_extra=6, min_length=3, constraints=rules)
    model = model_of()
    prefixes = [[], [12, 12, 5], [9], [], [20, 21, 22, 23], [7, 7]]
    queries = [replace(query, prefix=prefix) for query, prefix in zip(sentences_of(6, settings), prefixes, strict=True)]
    found, expected = both(model, queries, settings, slots=2)
    assert_the_same(found, expected)
    assert [list(best.tokens[: len(prefix)]) for (best, *_), prefix in zip(found, prefixes, strict=True)] == prefixes


def test_equal_rules_share_what_was_recorded() -> None:
    model = model_of()
    engine = engine_in_slots(model)
    for _ in range(2):
        rules = (Trees(TreeTokens([4], [5], [6]), VOCABULARY), PenaliseRepetition(1.5), NoRepeat(3))
        settings = SearchSettings(beam=2, max_extra=9, constraints=rules)
        run_in_slots(engine, sentences_of(4, settings), settings)
    made = lanes_of(engine).recordings
    assert runners_of(engine) == 1
    settings = replace(settings, constraints=(PenaliseRepetition(1.6),))
    run_in_slots(engine, sentences_of(4, settings), settings)
    assert runners_of(engine) == 2
    assert lanes_of(engine).recordings == made + 1


def test_a_rule_that_cannot_be_recorded_leaves_the_search_to_the_reference() -> None:
    slots = SlotLanes(model_of())
    assert slots.takes(SearchSettings(no_repeat=2, constraints=(TREES,)))
    assert not slots.takes(SearchSettings(constraints=(TREES, MinLength(3))))
    planner = smallest("bpe")
    one, other, required = planner.plan((), ("a",)), planner.plan((), ("b",)), planner.plan(("a",), ("ab",))
    many = planner.plan(["".join(letters) for letters in product("ab", repeat=6)], ())
    assert words({0: one, 1: one}) == words({2: one})
    assert slots.takes(SearchSettings(constraints=(words({0: one, 1: one}),)))
    assert slots.takes(SearchSettings(constraints=(words({0: one, 1: other}),)))
    assert slots.takes(SearchSettings(constraints=(words({0: required}),)))
    assert not slots.takes(SearchSettings(constraints=(words({0: many}),)))


def test_a_limit_that_no_tree_fits_is_refused_and_the_slots_serve_again() -> None:
    settings = SearchSettings(beam=2, max_extra=9, constraints=(TREES,))
    model = model_of()
    queries, engine = sentences_of(5, settings), engine_in_slots(model)
    with refuses("Sentence 4 has 30 words, but its tree may have ... raise `max_extra`."):
        run_in_slots(engine, [*queries[:3], replace(queries[3], words=30)], settings)
    with without_kernels():
        expected = search(model, queries, settings, 4096)
    assert_the_same(run_in_slots(engine, queries, settings), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="recordings need a GPU")
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("kind", SEARCHES)
def test_a_search_on_a_gpu_uses_slots_under_constraints(kind: str, rules: str) -> None:
    settings = SearchSettings(**SEARCHES[kind], max_extra=40, constraints=RULES[rules])
    model = model_of()
    queries, scorer = sentences_of(40, settings), SingleModel(model)
    found = search(scorer, queries, settings, 4096)
    assert runners_of(engine_of(scorer)) == 1
    with without_kernels():
        assert_the_same(found, search(model, queries, settings, 4096))
