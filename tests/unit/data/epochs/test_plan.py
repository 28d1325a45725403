import tracemalloc
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.examples import examples

from heedful.base.errors import UserError
from heedful.data.epochs import plan as module
from heedful.data.epochs.plan import Costs, Counts, Indices, batches_by_length, plan

lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=200)


def sides(pairs: list[tuple[int, int]]) -> tuple[Counts, Counts]:
    both = np.array(pairs, np.int32).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def looked_up(costs: tuple[Counts, Counts]) -> Costs:
    return lambda indices: tuple(cost[indices] for cost in costs)


def planned(
    costs: tuple[Counts, Counts], epoch: int = 0, seed: int = 1, tokens: int = 40, most: int | None = None
) -> list[Indices]:
    size = len(costs[0])
    return list(plan(looked_up(costs), [size], [1.0], seed=seed, epoch=epoch, batch_tokens=tokens, max_sentences=most))


def many(count: int) -> tuple[Counts, Counts]:
    random = np.random.default_rng(0)
    source = random.integers(3, 50, count).astype(np.int32)
    return source, np.maximum(2, source + random.integers(-3, 4, count)).astype(np.int32)


def same(left: list[Indices], right: list[Indices]) -> bool:
    return len(left) == len(right) and all(map(np.array_equal, left, right))


@given(lengths, st.integers(0, 3), st.one_of(st.none(), st.integers(1, 9)))
def test_every_sentence_comes_once_within_the_budget_of_each_side(
    pairs: list[tuple[int, int]], epoch: int, most: int | None
) -> None:
    source, target = costs = sides(pairs)
    batches = planned(costs, epoch, most=most)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs)))
    for batch in batches:
        assert len(batch)
        assert source[batch].sum() <= 40
        assert target[batch].sum() <= 40
        assert len(batch) <= (most or len(batch))


def test_the_plan_is_a_pure_function_of_corpus_seed_and_epoch() -> None:
    costs = many(500)
    assert same(planned(costs, 3, tokens=400), planned(costs, 3, tokens=400))
    assert not same(planned(costs, 3, tokens=400), planned(costs, 4, tokens=400))
    assert not same(planned(costs, 3, tokens=400), planned(costs, 3, seed=2, tokens=400))
    assert not same(planned(costs, 0, seed=1, tokens=400), planned(costs, 1, seed=0, tokens=400))


def test_sentences_change_company_every_epoch() -> None:
    costs = many(5000)

    def companies(epoch: int) -> set[frozenset[int]]:
        return {frozenset(batch.tolist()) for batch in planned(costs, epoch, tokens=200)}

    assert len(companies(0) & companies(1)) < 0.01 * len(companies(0))


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_how_many_sentences_are_looked_up_at_once_does_not_matter(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = many(1000)
    expected = planned(costs, tokens=60)
    monkeypatch.setattr(module, "_BLOCK", block)
    assert same(planned(costs, tokens=60), expected)


def test_pools_are_filled_in_shuffled_order_and_batches_stay_in_their_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a plain loop over the sentences in their shuffled order."""
    source, target = costs = many(1000)
    monkeypatch.setattr(module, "POOL", 4)
    monkeypatch.setattr(module, "_blocks", lambda *_: np.split(np.arange(1000)[::-1], [300, 310]))
    pools: list[set[int]] = []
    tokens = 0
    for sentence in reversed(range(1000)):
        if tokens // 400 == len(pools):
            pools.append(set())
        pools[-1].add(sentence)
        tokens += max(source[sentence], target[sentence])
    batches = planned(costs, tokens=100)
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))
    found = [next(i for i, pool in enumerate(pools) if pool.issuperset(batch.tolist())) for batch in batches]
    assert found == sorted(found)


def test_memory_does_not_grow_with_the_corpus() -> None:
    """A million sentences whose lengths are computed, not stored."""
    size = 1_000_000

    def costs(indices: Indices) -> tuple[Counts, Counts]:
        return indices % 41 + 5, indices % 37 + 7

    tracemalloc.start()
    try:
        batches = plan(costs, [size, size // 4], [1.0, 0.5], seed=1, epoch=0, batch_tokens=4096)
        shown = sum(map(len, islice(batches, 2000)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert shown > 200_000
    assert peak < 20 * 2**20


def test_a_seed_may_be_negative() -> None:
    assert planned(many(10), seed=-5, tokens=400)


def test_sentences_of_a_batch_are_of_similar_length_and_batches_are_full() -> None:
    source, target = costs = many(20_000)
    batches = planned(costs, tokens=1024)
    spread = [np.ptp(target[batch]) for batch in batches]
    assert np.mean(spread) < 4
    assert np.mean([max(source[batch].sum(), target[batch].sum()) for batch in batches]) > 0.95 * 1024


def test_the_order_of_batches_is_shuffled() -> None:
    _, target = costs = many(700)  # one pool
    means = [target[batch].mean() for batch in planned(costs, tokens=200)]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3


@pytest.mark.parametrize(
    ("weight", "expected"), [(1.0, {1: 10}), (3.0, {3: 10}), (0.3, {0: 7, 1: 3}), (2.5, {2: 5, 3: 5})]
)
def test_a_weight_says_how_often_a_sentence_comes(weight: float, expected: dict[int, int]) -> None:
    ones = looked_up((np.ones(14, np.int32), np.ones(14, np.int32)))
    shown: set[tuple[int, ...]] = set()
    for epoch in range(8):
        batches = plan(ones, [4, 10], [1.0, weight], seed=1, epoch=epoch, batch_tokens=7)
        times = Counter(np.concatenate(list(batches)).tolist())
        assert [times[i] for i in range(4)] == [1] * 4
        assert Counter(times[i] for i in range(4, 14)) == expected
        shown.add(tuple(times[i] for i in range(14)))
    assert (len(shown) > 1) == (len(expected) > 1)  # a fresh choice every epoch


def test_a_sentence_longer_than_the_budget_is_refused() -> None:
    costs = sides([(3, 4), (5, 1201)])
    message = (
        r"^`data.batch_tokens` is 1,000, but a pair in `data.train` needs 1,201 tokens, markers included: "
        r"raise `data.batch_tokens` or lower `data.max_length`\.$"
    )
    with pytest.raises(UserError, match=message):
        planned(costs, tokens=1000)


def test_an_epoch_without_sentences_is_refused() -> None:
    ones = looked_up((np.ones(3, np.int32), np.ones(3, np.int32)))
    message = r"An epoch would show no pair: `data.train` has 3 pairs with weights 0.1\. Raise `weight`\."
    with pytest.raises(UserError, match=message):
        plan(ones, [3], [0.1], seed=1, epoch=0, batch_tokens=7)


@given(lengths, st.one_of(st.none(), st.integers(1, 5)))
@examples(50)
def test_batches_by_length_cover_everything_once_shortest_first(pairs: list[tuple[int, int]], most: int | None) -> None:
    source, target = costs = sides(pairs)
    batches = batches_by_length(costs, batch_tokens=20, max_sentences=most)
    order = np.concatenate(batches)
    assert sorted(order.tolist()) == list(range(len(pairs)))
    assert [(target[i], source[i]) for i in order] == sorted((t, s) for s, t in pairs)
    for batch in batches:
        assert len(batch) == 1 or max(source[batch].sum(), target[batch].sum()) <= 20
        assert len(batch) <= (most or len(batch))


def test_batches_of_nothing() -> None:
    assert batches_by_length((np.empty(0, np.int64),), batch_tokens=20) == []
