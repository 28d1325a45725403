"""Batches of texts against a naive loop: markers, cuts, pairs, segments, labels, and dummies that count nothing."""

from dataclasses import dataclass
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.examples import examples
from tests.shared.refusals import refuses

from heedful.base.packed import IGNORED, Packed
from heedful.data.batches.texts import Cut, TextBatch, TextCollator
from heedful.data.collate import StaticShape
from heedful.data.epochs.loader import RowFeed
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD

CUTS: tuple[Cut, ...] = get_args(Cut)
CLASSES = 4
cuts = st.sampled_from(CUTS)


@dataclass(frozen=True)
class Row:
    """A text, or two, with its label and its several labels."""

    text: list[int]
    second: list[int]
    label: int
    several: list[int]


def row_of(first: int, second: int, several: int) -> Row:
    """A row of these lengths, each piece another; the bits of `several` are its labels."""
    labels = [number for number in range(CLASSES) if several >> number & 1]
    return Row(list(range(4, 4 + first)), list(range(50, 50 + second)), several % CLASSES, labels)


row = st.builds(row_of, st.integers(0, 12), st.integers(0, 12), st.integers(0, 2**CLASSES - 1))
corpus = st.lists(row, min_size=1, max_size=9)
STATIC = StaticShape.around(tokens=140, max_sentences=12, longest=15)


def store_of(rows: list[Row], several: bool = False) -> TokenStore:
    return TokenStore.of(
        text=[row.text for row in rows],
        second=[row.second for row in rows],
        label=[row.several if several else [row.label] for row in rows],
    )


def shuffled(count: int) -> Indices:
    return np.random.default_rng(count).permutation(count)


def packed(batch: TextBatch) -> Packed:
    assert isinstance(batch.inputs, Packed)
    return batch.inputs


def sequences(batch: TextBatch) -> list[list[int]]:
    return [values.tolist() for values in packed(batch).split()]


def segments(batch: TextBatch) -> list[list[int]]:
    found = packed(batch).segments
    assert found is not None
    return [values.tolist() for values in packed(batch).with_values(found).split()]


# --- by definition ----------------------------------------------------------------------------------------------------


def shortened(text: list[int], room: int, cut: Cut) -> list[int]:
    """Take one piece after the other away."""
    text = list(text)
    while len(text) > room:
        match cut:
            case "end":
                text.pop()
            case "start":
                text.pop(0)
            case "middle":
                text.pop(len(text) // 2)
    return text


def rooms(first: int, second: int, room: int) -> tuple[int, int]:
    """The longer of both loses first; of equals the second      `truncate_seq_pair` of BERT's program"""
    while first + second > room:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def test_the_middle_is_lost_from_the_middle() -> None:
    """The loop above, by hand: what stays is the first and the last pieces, one more of the first."""
    assert shortened([1, 2, 3, 4, 5, 6], 4, "middle") == [1, 2, 5, 6]
    assert shortened([1, 2, 3, 4, 5, 6], 3, "middle") == [1, 2, 6]
    assert shortened([1, 2, 3, 4, 5, 6, 7], 4, "middle") == [1, 2, 6, 7]
    assert shortened([1, 2, 3, 4, 5, 6, 7], 5, "middle") == [1, 2, 3, 6, 7]


# --- single texts -----------------------------------------------------------------------------------------------------


@given(corpus, st.integers(3, 16), cuts)
def test_a_text_stands_between_its_markers_and_is_cut_where_it_is_too_long(
    rows: list[Row], max_length: int, cut: Cut
) -> None:
    collator, order = TextCollator(max_length, cut), shuffled(len(rows))
    batch = collator.batch([store_of(rows)], order)
    expected = [[BEGIN, *shortened(rows[i].text, max_length - 2, cut), END] for i in order]
    assert sequences(batch) == expected
    assert packed(batch).segments is None
    assert batch.labels.tolist() == [rows[i].label for i in order]
    assert (batch.sentences, batch.tokens) == (len(rows), sum(map(len, expected)))
    (costs,) = collator.costs([store_of(rows)], order)
    assert costs.tolist() == list(map(len, expected))


@given(corpus)
def test_the_layout_equals_its_definition(rows: list[Row]) -> None:
    text = packed(TextCollator(9).batch([store_of(rows)], np.arange(len(rows))))
    again = Packed.of([values.tolist() for values in text.split()])
    assert torch.equal(text.layout.offsets, again.layout.offsets)
    assert torch.equal(text.layout.positions, again.layout.positions)
    assert (text.layout.offsets.dtype, text.values.dtype) == (torch.int32, torch.int64)
    assert text.layout.bound == again.layout.bound


# --- pairs ------------------------------------------------------------------------------------------------------------


@given(corpus, st.integers(5, 28), cuts)
def test_of_a_pair_the_longer_text_loses_first(rows: list[Row], max_length: int, cut: Cut) -> None:
    collator, order = TextCollator(max_length, cut, paired=True), shuffled(len(rows))
    batch = collator.batch([store_of(rows)], order)
    expected, kinds = [], []
    for i in order:
        first, second = rooms(len(rows[i].text), len(rows[i].second), max_length - 3)
        texts = [BEGIN, *shortened(rows[i].text, first, cut), END], [*shortened(rows[i].second, second, cut), END]
        expected.append(texts[0] + texts[1])
        kinds.append([0] * len(texts[0]) + [1] * len(texts[1]))
    assert sequences(batch) == expected
    assert segments(batch) == kinds
    assert batch.tokens == sum(map(len, expected))
    (costs,) = collator.costs([store_of(rows)], order)
    assert costs.tolist() == list(map(len, expected))


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(4, 3, (4, 3)), (5, 3, (4, 3)), (4, 4, (4, 3)), (9, 1, (6, 1)), (1, 9, (1, 6)), (9, 9, (4, 3)), (9, 0, (7, 0))],
)
def test_a_pair_that_fits_exactly_loses_nothing(first: int, second: int, kept: tuple[int, int]) -> None:
    store = TokenStore.of(text=[[5] * first], second=[[6] * second])
    batch = TextCollator(10, paired=True).batch([store], np.array([0]))
    assert sequences(batch) == [[BEGIN, *[5] * kept[0], END, *[6] * kept[1], END]]


# --- labels -----------------------------------------------------------------------------------------------------------


@given(corpus)
def test_several_labels_are_ones_in_a_row_of_classes(rows: list[Row]) -> None:
    order = shuffled(len(rows))
    batch = TextCollator(9, classes=CLASSES).batch([store_of(rows, several=True)], order)
    expected = [[float(number in rows[i].several) for number in range(CLASSES)] for i in order]
    assert batch.labels.tolist() == expected
    assert batch.labels.dtype == torch.float32


def test_texts_without_labels_have_none_that_counts() -> None:
    batch = TextCollator(9).batch([TokenStore.of(text=[[5], [6, 7]])], np.arange(2))
    assert batch.labels.tolist() == [IGNORED, IGNORED]


# --- dummies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("paired", [False, True])
@examples(40)
@given(rows=corpus, cut=cuts)
def test_static_and_filled_batches_agree_on_the_real_tokens_and_their_dummies_count_nothing(
    rows: list[Row], cut: Cut, paired: bool, several: bool
) -> None:
    collator = TextCollator(15, cut, paired, CLASSES if several else 0)
    store, order, real = [store_of(rows, several)], shuffled(len(rows)), len(rows)
    ragged = collator.batch(store, order)
    static, filled = collator.batch(store, order, STATIC), collator.batch(store, order, multiple=16)
    layout = packed(static).layout
    assert (layout.tokens, layout.sentences, layout.bound) == (140, STATIC.sentences, 15)
    assert packed(filled).layout.tokens % 16 == 0
    assert packed(filled).layout.tokens - packed(ragged).layout.tokens < 16
    for batch in (static, filled):
        assert sequences(batch)[:real] == sequences(ragged)
        assert all(set(dummy) <= {PAD} for dummy in sequences(batch)[real:])
        assert torch.equal(batch.labels[:real], ragged.labels)
        assert (batch.labels[real:] == IGNORED).all()
        assert len(batch.labels) == packed(batch).layout.sentences
        assert (batch.sentences, batch.tokens) == (ragged.sentences, ragged.tokens)
        if paired:
            assert segments(batch)[:real] == segments(ragged)
            assert not any(map(sum, segments(batch)[real:]))


def test_texts_that_do_not_fit_one_shape_are_refused() -> None:
    store = TokenStore.of(text=[[5] * 8, [5] * 8])
    message = r"^2 sentences of 20 tokens, the longest of 10, do not fit StaticShape\(.*\), which has room for "
    for shape in (StaticShape(19, 9, 10), StaticShape(30, 2, 10), StaticShape(40, 9, 9)):
        with pytest.raises(ValueError, match=message):
            TextCollator(10).batch([store], np.arange(2), shape)


# --- several stores, and the feed -------------------------------------------------------------------------------------


@examples(30)
@given(corpus, corpus, corpus)
def test_several_stores_are_one_after_the_other(one: list[Row], two: list[Row], three: list[Row]) -> None:
    together, collator = [*one, *two, *three], TextCollator(12, "middle", paired=True)
    order = np.random.default_rng(len(together)).permutation(np.arange(len(together)).repeat(2))
    stores, joined = [store_of(one), store_of(two), store_of(three)], [store_of(together)]
    assert sequences(collator.batch(stores, order)) == sequences(collator.batch(joined, order))
    assert collator.batch(stores, order).labels.tolist() == [together[i].label for i in order]
    assert collator.costs(stores, order)[0].tolist() == collator.costs(joined, order)[0].tolist()


def feed_of(rows: list[Row], batch_tokens: int) -> RowFeed[TextBatch]:
    return RowFeed([store_of(rows)], [1.0], TextCollator(9), seed=1, batch_tokens=batch_tokens, max_sentences=3)


def test_an_epoch_shows_every_text_once_within_the_budget_in_an_order_of_its_own() -> None:
    rows = [Row([4 + i] * (1 + i % 7), [], i % CLASSES, []) for i in range(40)]
    feed = feed_of(rows, batch_tokens=20)
    for epoch in (0, 1):
        batches = [feed.batch(indices) for indices in feed.plan(epoch)]
        assert sorted(text for batch in batches for text in sequences(batch)) == sorted(
            [BEGIN, *r.text, END] for r in rows
        )
        assert all(batch.tokens <= 20 and batch.sentences <= 3 for batch in batches)
    again = [[indices.tolist() for indices in feed.plan(epoch)] for epoch in (0, 0, 1)]
    assert again[0] == again[1] != again[2]


def test_one_shape_holds_every_batch_of_a_plan() -> None:
    rows = [Row([5] * (i % 12), [], 0, []) for i in range(60)]
    shape = StaticShape.around(tokens=20, max_sentences=3, longest=9)
    feed = RowFeed([store_of(rows)], [1.0], TextCollator(9), 1, 20, 3, static=shape)
    shapes = {
        (layout.tokens, layout.sentences) for layout in (packed(feed.batch(each)).layout for each in feed.plan(0))
    }
    assert shapes == {(20, shape.sentences)}


def test_a_text_over_the_budget_is_refused_though_it_was_cut() -> None:
    feed = feed_of([Row([5] * 50, [], 0, [])], batch_tokens=8)
    with refuses("`data.batch_tokens` is 8, but a text in `data.train` needs 9 tokens..."):
        next(feed.plan(0))


def test_cut_texts_grow_in_costs_up_to_the_length_and_no_further() -> None:
    rows = [Row([5] * size, [], 0, []) for size in range(20)]
    (costs,) = TextCollator(9).costs([store_of(rows)], np.arange(20))
    assert all(before <= after for before, after in pairwise(costs.tolist()))
    assert (costs.min(), costs.max()) == (2, 9)
