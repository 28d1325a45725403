from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from itertools import islice

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses
from torch import Tensor

from heedful.base.packed import IGNORED
from heedful.config.train.table import Masking
from heedful.data.batches.masked import MaskedBatch, MaskedFeed, some_inputs, validation_feed
from heedful.data.batches.stretches import Runs, Spans
from heedful.data.collate import StaticShape
from heedful.data.epochs.loader import Loader, TrainingFeed
from heedful.data.token_store import TokenStore

MASK, VOCABULARY = 4, range(10, 900)
BEGIN, END = 1, 2


def store_of(count: int, seed: int, sentences: int = 9) -> TokenStore:
    random = np.random.default_rng(seed)
    lengths = [random.integers(1, 30, random.integers(1, sentences)).tolist() for _ in range(count)]
    return TokenStore.of(text=[random.integers(10, 900, sum(each)).tolist() for each in lengths], sentences=lengths)


STORES = [store_of(60, 1), store_of(23, 2)]
STATIC = StaticShape.around(400, 40, 48)
FEED = MaskedFeed(STORES, [1.0, 1.5], 7, 400, 48, True, Masking(), MASK, VOCABULARY)
SINGLE = replace(FEED, next_sentence=False)


def tokens_of(stores: Sequence[TokenStore], runs: Runs) -> list[list[int]]:
    """The tokens of stretches, looked up one by one."""
    rows = [
        row for store in stores for row in (store.sentence("text", number).tolist() for number in range(len(store)))
    ]
    return [
        rows[document][begin:end]
        for document, begin, end in zip(runs.documents.tolist(), runs.begins.tolist(), runs.ends.tolist(), strict=True)
    ]


def true_inputs(feed: MaskedFeed, spans: Spans) -> list[list[int]]:
    """What a batch would be without masks."""
    first = tokens_of(feed.stores, spans.first)
    if spans.second is None:
        return [[BEGIN, *a, END] for a in first]
    return [[BEGIN, *a, END, *b, END] for a, b in zip(first, tokens_of(feed.stores, spans.second), strict=True)]


def real(batch: MaskedBatch) -> list[list[int]]:
    return [sentence.tolist() for sentence in batch.text.split()[: batch.sentences]]


def same(left: MaskedBatch, right: MaskedBatch) -> bool:
    pairs = zip(tensors(left), tensors(right), strict=True)
    return all(torch.equal(mine, theirs) for mine, theirs in pairs) and counts(left) == counts(right)


def all_same(left: Iterable[MaskedBatch], right: Iterable[MaskedBatch]) -> bool:
    return all(same(mine, theirs) for mine, theirs in zip(left, right, strict=True))


def tensors(batch: MaskedBatch) -> list[Tensor]:
    segments = [] if batch.text.segments is None else [batch.text.segments]
    layout = batch.text.layout
    named = [batch.places, batch.labels, batch.next, batch.balance]
    return [batch.text.values, layout.offsets, layout.positions, *segments, *named]


def counts(batch: MaskedBatch) -> tuple[int, int, int]:
    return batch.sentences, batch.tokens, batch.masked


@pytest.mark.parametrize("feed", [FEED, SINGLE, replace(FEED, static=STATIC), replace(SINGLE, multiple=64)])
def test_a_batch_is_its_inputs_but_for_the_chosen_tokens(feed: MaskedFeed) -> None:
    for spans in feed.plan(0):
        batch = feed.batch(spans)
        expected = true_inputs(feed, spans)
        assert batch.sentences == len(expected)
        assert batch.tokens == sum(map(len, expected))
        assert [len(sentence) for sentence in real(batch)] == list(map(len, expected))
        assert max(map(len, expected)) <= 48
        restored = batch.text.values.clone()
        restored[batch.places[: batch.masked]] = batch.labels[: batch.masked]
        flat = [token for sentence in expected for token in sentence]
        assert restored[: batch.tokens].tolist() == flat
        assert not restored[batch.tokens :].any()


@pytest.mark.parametrize("feed", [FEED, SINGLE])
@pytest.mark.parametrize("whole_words", [False, True])
def test_the_answer_is_nowhere_but_in_the_labels(feed: MaskedFeed, whole_words: bool) -> None:
    """Every token of the corpus is another number, so that one that is seen can be from one place only."""
    lengths = [STORES[0].sentence("sentences", row).tolist() for row in range(len(STORES[0]))]
    starts = (np.cumsum([1000, *map(sum, lengths)])).tolist()
    text = [list(range(begin, begin + sum(row))) for begin, row in zip(starts, lengths, strict=False)]
    feed = replace(
        feed,
        stores=[TokenStore.of(text=text, sentences=lengths)],
        weights=[1.0],
        masking=Masking(masked=0.9, random=0.1, whole_words=whole_words),  # none stays
        begins_word=np.arange(100_000) % 3 > 0,
    )
    for spans in feed.plan(0):
        batch = feed.batch(spans)
        hidden = {(int(place), int(label)) for place, label in zip(batch.places, batch.labels, strict=True)}
        assert len(hidden) == batch.masked > 0
        for place, label in hidden:
            assert batch.text.values[place] in (MASK, *VOCABULARY)
            assert batch.text.values[place] != label
        for tensor in tensors(batch):
            if tensor is not batch.labels and tensor is not batch.text.values:
                assert tensor.max() < 1000
    assert {field.name for field in fields(MaskedBatch)} == {
        "text", "places", "labels", "next", "balance", "sentences", "tokens", "masked"
    }  # fmt: skip


def test_about_eighty_ten_and_ten_of_fifteen_in_a_hundred() -> None:
    feed = replace(FEED, stores=[store_of(3000, 3)], weights=[1.0], batch_tokens=8000)
    seen, labels, texts = [], [], 0
    for spans in feed.plan(0):
        batch = feed.batch(spans)
        seen.append(batch.text.values[batch.places])
        labels.append(batch.labels)
        texts += batch.tokens - 3 * batch.sentences
    shown, true = torch.cat(seen), torch.cat(labels)
    assert abs(len(true) / texts - 0.15) < 0.004  # a short input has one at least
    assert abs((shown == MASK).float().mean() - 0.8) < 0.01
    assert abs((shown == true).float().mean() - 0.1) < 0.01


def test_segments_tell_the_two_stretches_apart_and_the_labels_if_they_belong_together() -> None:
    for feed in (FEED, replace(FEED, static=STATIC)):
        for spans in islice(feed.plan(0), 5):
            batch = feed.batch(spans)
            assert spans.drawn is not None
            assert batch.text.segments is not None
            assert batch.next.tolist()[: batch.sentences] == spans.drawn.tolist()
            assert set(batch.next.tolist()[batch.sentences :]) <= {IGNORED}
            assert len(batch.next) == batch.text.layout.sentences
            expected = []
            for first, whole in zip(spans.first.lengths.tolist(), spans.lengths.tolist(), strict=True):
                expected += [0] * (first + 2) + [1] * (whole - first - 2)
            assert batch.text.segments.tolist() == expected + [0] * (batch.text.layout.tokens - batch.tokens)


def test_without_pairs_there_are_neither_segments_nor_labels_of_them() -> None:
    for spans in SINGLE.plan(0):
        batch = SINGLE.batch(spans)
        assert batch.text.segments is None
        assert batch.next.tolist() == [IGNORED] * batch.sentences


@pytest.mark.parametrize("feed", [FEED, SINGLE])
def test_one_shape_holds_every_batch_and_says_the_same_of_real_tokens(feed: MaskedFeed) -> None:
    static = replace(feed, static=STATIC)
    shapes = set()
    for spans in static.plan(1):
        ragged, fixed = feed.batch(spans), static.batch(spans)
        shapes.add(tuple(tensor.shape for tensor in tensors(fixed)))
        assert real(ragged) == real(fixed)
        assert counts(ragged) == counts(fixed)
        assert fixed.balance == ragged.balance
        for name in ("places", "labels"):
            assert getattr(fixed, name)[: fixed.masked].tolist() == getattr(ragged, name).tolist()
        assert set(fixed.places[fixed.masked :].tolist()) <= {0}
        assert set(fixed.labels[fixed.masked :].tolist()) <= {IGNORED}
    assert len(shapes) == 1
    assert len(fixed.places) == 60 + STATIC.max_sentences


def test_a_shape_bounds_the_inputs_of_a_batch() -> None:
    short = TokenStore.of(text=[[10, 11]] * 300, sentences=[[1, 1]] * 300)
    feed = replace(FEED, stores=[short], weights=[1.0], static=STATIC)
    assert max(feed.batch(spans).sentences for spans in feed.plan(0)) == 40
    fewer = replace(feed, max_sentences=25)
    assert max(fewer.batch(spans).sentences for spans in fewer.plan(0)) == 25


def test_the_balance_weighs_a_pair_like_the_tokens_of_an_input() -> None:
    for spans in FEED.plan(0):
        batch = FEED.batch(spans)
        assert batch.balance == pytest.approx(batch.masked / batch.sentences)
        assert batch.balance.dtype == torch.float32
        assert batch.masked == len(batch.places) == len(batch.labels)


@pytest.mark.parametrize("feed", [FEED, SINGLE])
def test_the_batch_of_a_plan_is_the_same_whenever_it_is_made_and_another_in_every_epoch(feed: MaskedFeed) -> None:
    first = [feed.batch(spans) for spans in feed.plan(2)]
    again = [feed.batch(spans) for spans in reversed(list(feed.plan(2)))][::-1]
    assert all_same(first, again)
    other = [feed.batch(spans) for spans in feed.plan(3)]
    assert not any(same(left, right) for left in first for right in other)


def test_masks_change_where_the_inputs_stay() -> None:
    """Documents of one short sentence: the same inputs in every epoch, of which other tokens are hidden."""
    store = TokenStore.of(text=[[number] * 20 for number in range(10, 40)], sentences=[[20]] * 30)
    feed = replace(SINGLE, stores=[store], weights=[1.0])

    def hidden(epoch: int) -> set[tuple[int, int]]:
        found = set()
        for spans in feed.plan(epoch):
            batch = feed.batch(spans)
            offsets = batch.text.layout.positions
            found |= {
                (int(label), int(offsets[place])) for place, label in zip(batch.places, batch.labels, strict=True)
            }
        return found

    assert len(hidden(0)) == len(hidden(1)) == 30 * 3
    assert len(hidden(0) & hidden(1)) < 30
    assert len(set.union(*(hidden(epoch) for epoch in range(40)))) > 590


def test_an_epoch_without_pairs_shows_every_token_of_the_corpus_once() -> None:
    feed = replace(SINGLE, weights=[1.0, 1.0])
    shown = [token for spans in feed.plan(0) for sentence in true_inputs(feed, spans) for token in sentence[1:-1]]
    corpus = [token for store in STORES for token in store.streams["text"].values.tolist()]
    assert sorted(shown) == sorted(corpus)


def test_words_are_masked_whole() -> None:
    begins_word = np.arange(900) % 3 == 0
    feed = replace(FEED, masking=Masking(whole_words=True, share=0.3, masked=1.0, random=0.0), begins_word=begins_word)
    parts = 0
    for spans in feed.plan(0):
        batch = feed.batch(spans)
        chosen = np.zeros(batch.tokens, np.bool_)
        chosen[batch.places.numpy()] = True
        flat = [token for sentence in true_inputs(feed, spans) for token in sentence]
        words: list[list[int]] = []
        for place, token in enumerate(flat):
            if token <= END:
                words.append([])  # what comes next is of another word
            elif begins_word[token] or not words[-1]:
                words.append([place])
            else:
                words[-1].append(place)
        parts += sum(0 < chosen[word].sum() < len(word) for word in words if word)
        assert chosen.sum() == batch.masked
    assert parts < 5  # of inputs all of whose words are longer than their share


def test_a_word_ends_with_its_stretch() -> None:
    """Pieces none of which begins a word: each stretch is one, and one of two is half of an input."""
    store = TokenStore.of(text=[[11] * 20] * 30, sentences=[[10, 10]] * 30)
    masking = Masking(whole_words=True, share=0.5)
    feed = replace(FEED, stores=[store], weights=[1.0], masking=masking, begins_word=np.zeros(900, np.bool_))
    for spans in feed.plan(0):
        batch = feed.batch(spans)
        chosen = torch.zeros(batch.tokens, dtype=torch.int64)
        chosen[batch.places] = 1
        for each in chosen.split(batch.text.layout.lengths.tolist()):
            assert sorted((int(each[:11].sum()), int(each[11:].sum()))) == [0, 10]


def test_whole_words_need_to_know_where_words_begin() -> None:
    with refuses("...whole words are masked by `begins_word`, which is missing...", ValueError):
        replace(FEED, masking=Masking(whole_words=True))


def test_validation_is_always_the_same_and_shows_every_document() -> None:
    other = replace(SINGLE, seed=2, weights=[0.5, 3.0], batch_tokens=99, max_sentences=3)
    batches = validated(SINGLE)
    assert all_same(batches, validated(other))
    assert all_same(batches, validated(SINGLE))
    texts = sum(batch.tokens - 2 * batch.sentences for batch in batches)
    assert texts == sum(store.tokens("text") for store in STORES)


def validated(feed: MaskedFeed) -> list[MaskedBatch]:
    fixed = validation_feed(feed)
    return list(map(fixed.batch, fixed.plan(0)))


@pytest.mark.parametrize("feed", [FEED, SINGLE], ids=["pairs", "single"])
def test_some_inputs_are_taken_at_equal_distances_and_none_twice(feed: MaskedFeed) -> None:
    inputs = [each for spans in feed.plan(0) for each in true_inputs(feed, spans)]
    most = len(inputs) // 3 + 1
    plan = some_inputs(feed, most)
    chosen = [each for spans in plan for each in true_inputs(feed, spans)]
    assert sorted(chosen) == sorted(inputs[place * len(inputs) // most] for place in range(most))
    assert max(feed.batch(spans).tokens for spans in plan) <= feed.batch_tokens
    assert len({spans.seeds for spans in plan}) == len(plan)


def test_where_there_are_no_more_inputs_all_are_taken() -> None:
    count = sum(len(spans.lengths) for spans in FEED.plan(0))
    assert all_same(map(FEED.batch, some_inputs(FEED, count)), map(FEED.batch, FEED.plan(0)))
    assert sum(len(spans.lengths) for spans in some_inputs(FEED, count - 1)) == count - 1


def test_a_loader_serves_the_feed_from_any_point() -> None:
    size = len(list(FEED.plan(0)))
    with Loader(FEED) as loader:
        whole = [made.batch for made in islice(loader, size + 3)]
    with Loader(FEED, start=(0, size - 2)) as loader:
        assert all_same([made.batch for made in islice(loader, 5)], whole[size - 2 :])


def test_a_batch_moves_whole() -> None:
    batch = FEED.batch(next(FEED.plan(0)))
    moved = batch.to(torch.device("meta"))
    assert all(tensor.is_meta for tensor in tensors(moved))
    assert counts(moved) == counts(batch)


def test_a_placed_feed_has_the_shape_of_its_device() -> None:
    placed = FEED.placed(STATIC, pin=False)
    assert isinstance(placed, TrainingFeed)
    assert (placed.static, FEED.static) == (STATIC, None)
    assert len(placed.batch(next(placed.plan(0))).text.values) == STATIC.tokens


@pytest.mark.skipif(not torch.cuda.is_available(), reason="page-locked memory needs a CUDA device")
def test_batches_can_be_page_locked() -> None:
    feed = FEED.placed(None, pin=True)
    assert all(tensor.is_pinned() for tensor in tensors(feed.batch(next(feed.plan(0)))))
