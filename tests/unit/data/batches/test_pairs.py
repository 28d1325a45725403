import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.refusals import refuses

from heedful.base.packed import IGNORED, Packed
from heedful.data.batches.pairs import PairBatch, PairCollator, collate, pair_costs
from heedful.data.collate import StaticShape
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD

sentence = st.lists(st.integers(4, 99), min_size=1, max_size=7)
corpus = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=12)
Corpus = list[tuple[list[int], list[int]]]

STATIC = StaticShape.around(tokens=100, max_sentences=12, longest=8)


def store_of(pairs: Corpus) -> TokenStore:
    return TokenStore.of(source=[source for source, _ in pairs], target=[target for _, target in pairs])


def everything(pairs: Corpus) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(len(pairs))


def sentences(packed: Packed) -> list[list[int]]:
    return [values.tolist() for values in packed.split()]


@given(corpus, st.randoms(use_true_random=False))
def test_a_ragged_batch_is_the_sentences_with_their_markers(pairs: Corpus, random: np.random.RandomState) -> None:
    order = list(range(len(pairs)))
    random.shuffle(order)
    batch = collate([store_of(pairs)], np.array(order))
    assert sentences(batch.source) == [[*pairs[i][0], END] for i in order]
    assert sentences(batch.target) == [[BEGIN, *pairs[i][1]] for i in order]
    assert sentences(batch.target.with_values(batch.labels)) == [[*pairs[i][1], END] for i in order]
    assert batch.source.layout.bound == max(len(source) for source, _ in pairs) + 1
    assert batch.sentences == len(pairs)
    assert batch.source_tokens == batch.source.layout.tokens
    assert batch.target_tokens == len(batch.labels)


@given(corpus)
def test_the_layout_equals_its_definition(pairs: Corpus) -> None:
    batch = collate([store_of(pairs)], everything(pairs))
    again = Packed.of([[BEGIN, *target] for _, target in pairs])
    assert torch.equal(batch.target.layout.offsets, again.layout.offsets)
    assert torch.equal(batch.target.layout.positions, again.layout.positions)
    assert batch.target.layout.offsets.dtype == torch.int32
    assert batch.target.values.dtype == batch.labels.dtype == torch.int64


@given(corpus)
def test_the_static_layout_agrees_on_the_real_tokens(pairs: Corpus) -> None:
    store, indices = store_of(pairs), everything(pairs)
    ragged, static = collate([store], indices), collate([store], indices, STATIC)
    real = len(pairs)
    assert sentences(static.source)[:real] == sentences(ragged.source)
    assert sentences(static.target)[:real] == sentences(ragged.target)
    assert static.labels[static.labels != IGNORED].tolist() == ragged.labels.tolist()
    counts = (static.sentences, static.source_tokens, static.target_tokens)
    assert counts == (ragged.sentences, ragged.source_tokens, ragged.target_tokens)


@given(corpus)
def test_the_static_layout_has_one_shape_and_a_harmless_tail(pairs: Corpus) -> None:
    batch = collate([store_of(pairs)], everything(pairs), STATIC)
    real = len(pairs)
    for side in (batch.source, batch.target):
        assert (side.layout.tokens, side.layout.sentences, side.layout.bound) == (100, STATIC.sentences, 8)
        assert side.layout.offsets.diff().min() >= 0
        assert side.layout.offsets[-1] == 100
        assert side.layout.lengths.max() <= 8
        assert all(set(dummy) <= {PAD} for dummy in sentences(side)[real:])
        restarting = [place for length in side.layout.lengths.tolist() for place in range(length)]
        assert side.layout.positions.tolist() == restarting
    assert (batch.labels[batch.target_tokens :] == IGNORED).all()


@given(corpus)
def test_a_dummy_faces_a_dummy_that_is_not_empty(pairs: Corpus) -> None:
    batch = collate([store_of(pairs)], everything(pairs), STATIC)
    source, target = (side.layout.lengths[len(pairs) :] for side in (batch.source, batch.target))
    dummies = int((target > 0).sum())
    assert (target[:dummies] > 0).all()
    if source.sum() >= dummies:
        assert (source[:dummies] > 0).all()


def test_a_full_side_faces_a_tail_with_empty_dummies() -> None:
    pairs: Corpus = [([4] * 9, [4])]
    batch = collate([store_of(pairs)], everything(pairs), StaticShape(tokens=10, sentences=3, bound=10))
    assert batch.source.layout.lengths.tolist() == [10, 0, 0]
    assert batch.target.layout.lengths.tolist() == [2, 8, 0]


def test_a_full_batch_needs_no_dummies() -> None:
    pairs: Corpus = [([4] * 4, [4] * 4), ([4] * 4, [4] * 4)]
    batch = collate([store_of(pairs)], everything(pairs), StaticShape(tokens=10, sentences=2, bound=5))
    assert batch.source.layout.lengths.tolist() == [5, 5]


@pytest.mark.parametrize(
    "shape",
    [
        StaticShape(tokens=9, sentences=9, bound=5),
        StaticShape(tokens=20, sentences=3, bound=5),
        StaticShape(tokens=10, sentences=9, bound=4),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(shape: StaticShape) -> None:
    pairs: Corpus = [([4] * 4, [4]), ([4] * 4, [4])]
    with refuses("...2 sentences of 10 and 4 tokens, the longest of 5, do not fit StaticShape(...", ValueError):
        collate([store_of(pairs)], everything(pairs), shape)


@given(st.integers(1, 64), st.integers(1, 20), st.integers(1, 20))
def test_a_shape_around_bounds_has_room_for_them(tokens: int, most: int, longest: int) -> None:
    shape = StaticShape.around(tokens, most, longest)
    assert shape.max_sentences == most
    assert (shape.sentences - most) * longest >= tokens


@given(corpus, corpus, corpus)
def test_several_stores_are_one_after_the_other(one: Corpus, two: Corpus, three: Corpus) -> None:
    together = [*one, *two, *three]
    order = np.random.default_rng(len(together)).permutation(np.arange(len(together)).repeat(2))
    apart = collate([store_of(one), store_of(two), store_of(three)], order)
    joined = collate([store_of(together)], order)
    assert sentences(apart.source) == sentences(joined.source)
    assert apart.labels.tolist() == joined.labels.tolist()


def test_a_batch_moves_as_a_whole() -> None:
    pairs: Corpus = [([4, 5], [6]), ([7], [8, 9])]
    batch = collate([store_of(pairs)], everything(pairs))
    moved = batch.to(torch.device("meta"), non_blocking=True)
    assert isinstance(moved, PairBatch)
    tensors = (moved.labels, moved.source.values, moved.target.values, moved.source.layout.offsets)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert (moved.sentences, moved.source_tokens, moved.target_tokens) == (2, 5, 5)
    assert moved.target.layout.bound == batch.target.layout.bound


@pytest.mark.skipif(not torch.cuda.is_available(), reason="page-locked memory needs a CUDA device")
def test_a_pinned_batch_is_the_same_batch() -> None:
    pairs: Corpus = [([4, 5], [6]), ([7], [8, 9])]
    batch = collate([store_of(pairs)], everything(pairs))
    pinned = batch.pin_memory()
    assert pinned.labels.is_pinned()
    assert pinned.source.layout.offsets.is_pinned()
    assert torch.equal(pinned.labels, batch.labels)


def test_a_batch_is_made_in_a_millisecond_or_so() -> None:
    store = TokenStore.of(source=[[5] * 15] * 1000, target=[[6] * 15] * 1000)
    indices = np.random.default_rng(0).permutation(1000)[:256]
    shape = StaticShape.around(tokens=4096, max_sentences=300, longest=64)
    collate([store], indices, shape)
    begin = time.process_time()
    for _ in range(20):
        collate([store], indices, shape)
    assert (time.process_time() - begin) / 20 < 0.005  # 0.3 ms measured: wide enough for a loaded machine


@given(corpus, st.sampled_from([2, 8, 64]))
def test_a_ragged_batch_is_filled_up_to_a_multiple_by_dummies_that_count_in_no_loss(
    pairs: Corpus, multiple: int
) -> None:
    store, indices = store_of(pairs), everything(pairs)
    plain, filled = collate([store], indices), collate([store], indices, multiple=multiple)
    for one, two in ((plain.source, filled.source), (plain.target, filled.target)):
        assert two.layout.tokens % multiple == 0
        assert two.layout.tokens - one.layout.tokens < multiple
        assert two.layout.bound == one.layout.bound
        assert two.layout.lengths.max() <= two.layout.bound
        assert torch.equal(two.values[: one.layout.tokens], one.values)
    assert filled.source.layout.sentences == filled.target.layout.sentences
    assert (filled.labels[len(plain.labels) :] == IGNORED).all()
    assert filled.target_tokens == plain.target_tokens


def test_costs_count_the_marker_of_each_side() -> None:
    source, target = pair_costs(
        [TokenStore.of(source=[[5, 6]], target=[[7]]), TokenStore.of(source=[[5]], target=[[7] * 3])]
    )
    assert (source.tolist(), target.tolist()) == ([3, 2], [2, 4])


def test_costs_of_some_sentences_are_found_in_their_stores() -> None:
    sentences = [[number] * (1 + number % 7) for number in range(69)]
    stores = [
        TokenStore.of(source=sentences[:40], target=sentences[20:60]),
        TokenStore.of(source=sentences[:9], target=sentences[9:18]),
    ]
    source, target = pair_costs(stores)
    indices = np.array([48, 0, 39, 40, 39])
    found = PairCollator().costs(stores, indices)
    assert (found[0].tolist(), found[1].tolist()) == (source[indices].tolist(), target[indices].tolist())
