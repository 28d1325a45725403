import tracemalloc
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.base.errors import UserError
from heedful.data.batches.stretches import SingleStretches, Spans, plan_spans
from heedful.data.token_store import Ragged, TokenStore

Documents = list[list[int]]  # the lengths of their sentences

documents = st.lists(st.lists(st.integers(0, 25), min_size=1, max_size=12), min_size=1, max_size=8).filter(
    lambda found: any(map(sum, found))
)


def store_of(lengths: Documents) -> TokenStore:
    return TokenStore.of(text=[list(range(sum(sentences))) for sentences in lengths], sentences=lengths)


def many(count: int, seed: int = 0) -> Documents:
    random = np.random.default_rng(seed)
    return [random.integers(1, 30, random.integers(1, 40)).tolist() for _ in range(count)]


def planned(
    *lengths: Documents,
    weights: tuple[float, ...] = (),
    epoch: int = 0,
    seed: int = 1,
    longest: int = 12,
    tokens: int = 60,
    most: int | None = None,
) -> list[Spans]:
    stores = [store_of(documents) for documents in lengths]
    return list(
        plan_spans(
            stores,
            weights or [1.0] * len(stores),
            SingleStretches(longest),
            seed=seed,
            epoch=epoch,
            batch_tokens=tokens,
            max_sentences=most,
        )
    )


def inputs(batches: list[Spans]) -> list[tuple[int, int, int]]:
    """Document, begin and end of every input, in the order of the documents."""
    runs = [batch.first for batch in batches]
    rows = [np.stack((run.documents, run.begins, run.ends), axis=1).tolist() for run in runs]
    return sorted(tuple(row) for batch in rows for row in batch)


@given(documents, st.integers(0, 3))
def test_every_token_is_in_one_input_and_each_input_in_one_document(lengths: Documents, epoch: int) -> None:
    found = inputs(planned(lengths, epoch=epoch))
    for number, sentences in enumerate(lengths):
        mine = [(begin, end) for document, begin, end in found if document == number]
        assert [0, *(end for _, end in mine)] == [*(begin for begin, _ in mine), sum(sentences)]
    assert all(0 < end - begin <= 10 for _, begin, end in found)


@given(documents, st.integers(0, 3))
def test_cuts_fall_between_sentences_that_fit(lengths: Documents, epoch: int) -> None:
    for number, _, end in inputs(planned(lengths, epoch=epoch)):
        ends = np.cumsum(lengths[number])
        inside = int(np.searchsorted(ends, end))
        assert ends[inside] == end or lengths[number][inside] > 10


@given(documents, st.integers(0, 3))
def test_inputs_behind_the_first_are_as_full_as_sentences_allow(lengths: Documents, epoch: int) -> None:
    """Against a plain loop that goes on where the first input of a document ended."""
    lengths = [[min(10, length) for length in sentences] for sentences in lengths]
    found = inputs(planned(lengths, epoch=epoch))
    for number, sentences in enumerate(lengths):
        cuts = [end for document, _, end in found if document == number]
        expected, filled, before = cuts[:1], 0, 0
        for length in sentences:
            before += length
            if expected and before > expected[0]:
                if filled + length > 10:
                    expected.append(before - length)
                    filled = 0
                filled += length
        if expected and expected[-1] < before:
            expected.append(before)
        assert cuts == expected
        if 0 < sum(sentences) <= 10:
            assert len(cuts) == 1


@pytest.mark.parametrize("lengths", [[3] * 100, [300], [7, 280, 9]])
def test_cuts_fall_elsewhere_in_every_epoch(lengths: list[int]) -> None:
    cuts = [{end for _, _, end in inputs(planned([lengths], epoch=epoch, longest=52))} for epoch in range(30)]
    assert len(set(map(frozenset, cuts))) > 10
    assert len(set.union(*cuts)) > 60


def test_the_plan_is_a_pure_function_of_stores_seed_and_epoch() -> None:
    def shown(epoch: int, seed: int = 1) -> list[tuple[list[int], tuple[int, ...]]]:
        batches = planned(many(50), epoch=epoch, seed=seed)
        return [(batch.first.documents.tolist() + batch.first.begins.tolist(), batch.seeds) for batch in batches]

    assert shown(3) == shown(3)
    assert shown(3) != shown(4)
    assert shown(3) != shown(3, seed=2)
    assert shown(3, seed=-2)


def test_every_micro_batch_has_seeds_of_its_own() -> None:
    seeds = [batch.seeds for epoch in (0, 1) for seed in (1, 2) for batch in planned(many(50), epoch=epoch, seed=seed)]
    assert len(set(seeds)) == len(seeds) > 100
    assert all(each[-1] for each in seeds)  # (1, 0, 0) would draw the numbers of (1, 0), with which the plan is made


@given(documents, st.one_of(st.none(), st.integers(1, 3)))
def test_micro_batches_keep_to_the_budget(lengths: Documents, most: int | None) -> None:
    for batch in planned(lengths, most=most, tokens=20):
        assert batch.lengths.tolist() == [length + 2 for length in (batch.first.ends - batch.first.begins)]
        assert 0 < batch.lengths.sum() <= 20
        assert len(batch.lengths) <= (most or len(batch.lengths))


def test_inputs_of_a_batch_are_of_similar_length_and_batches_are_full() -> None:
    batches = planned(many(400), longest=100, tokens=1000)
    assert np.mean([np.ptp(batch.lengths) for batch in batches]) < 5
    assert np.mean([batch.lengths.sum() for batch in batches]) > 900


def test_equally_long_inputs_of_a_document_part_company() -> None:
    batches = planned([[10] * 100] * 20, tokens=120)
    assert np.mean([len(set(batch.first.documents.tolist())) for batch in batches if len(batch.lengths) > 9]) > 6


def test_documents_of_several_stores_come_as_often_as_their_weights_say() -> None:
    few, more = [[3, 4], [5, 9, 9]], [[2], [8, 8], [7], [1, 1]]
    shown = Counter(row[0] for row in inputs(planned(few, more, weights=(1.0, 2.5))) if row[1] == 0)
    assert [shown[number] for number in range(2)] == [1, 1]
    assert sorted(shown[number] for number in range(2, 6)) == [2, 2, 3, 3]
    total = sum(end - begin for document, begin, end in inputs(planned(few, more)))
    assert total == sum(map(sum, few)) + sum(map(sum, more))


def test_documents_and_sentences_without_tokens_are_passed_over() -> None:
    assert inputs(planned([[0], [0, 2, 0, 3, 0], [0, 0], [1]])) == [(1, 0, 5), (3, 0, 1)]


def test_memory_does_not_grow_with_the_documents() -> None:
    """Two million sentences; what is held is a pool of them."""
    size, sentences = 100_000, 20
    lengths = np.arange(size * sentences) % 23 + 2
    store = TokenStore(
        {
            "text": Ragged(
                np.empty(0, np.uint16), np.concatenate(([0], np.cumsum(lengths)[sentences - 1 :: sentences]))
            ),
            "sentences": Ragged(lengths.astype(np.uint32), np.arange(0, len(lengths) + 1, sentences)),
        }
    )
    tracemalloc.start()
    try:
        batches = plan_spans([store], [1.0], SingleStretches(128), seed=1, epoch=0, batch_tokens=4096)
        shown = sum(len(batch.lengths) for batch in islice(batches, 2000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert shown > 50_000
    assert peak < 20 * 2**20


def test_a_length_without_room_for_a_token_is_refused() -> None:
    message = r"^`data.max_length` is 2, but must be at least 3: an input is `<s> A </s>`, markers included\.$"
    with pytest.raises(UserError, match=message):
        planned([[3]], longest=2)
    assert inputs(planned([[3]], longest=3)) == [(0, 0, 1), (0, 1, 2), (0, 2, 3)]


def test_a_budget_below_the_longest_input_is_refused() -> None:
    message = (
        r"^`data.batch_tokens` is 1,000, but an input has up to 1,001 tokens: raise it, or lower `data.max_length`\.$"
    )
    with pytest.raises(UserError, match=message):
        planned([[3]], longest=1001, tokens=1000)


def test_weights_that_show_nothing_are_refused() -> None:
    message = r"An epoch would show no document: `data.train` has 2 documents with weights 0.1\. Raise `weight`\."
    with pytest.raises(UserError, match=message):
        planned([[3], [4]], weights=(0.1,))


def test_documents_without_a_token_are_refused() -> None:
    message = r"^The documents have no tokens: look at their files\.$"
    with pytest.raises(UserError, match=message):
        planned([[0], [0, 0]])
