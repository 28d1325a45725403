import threading
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice

import numpy as np
import pytest
from tests.shared.patience import PATIENCE
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.data.batches.pairs import PairBatch, PairCollator
from heedful.data.collate import StaticShape
from heedful.data.epochs.loader import Loader, MicroBatch, RowFeed, TrainingFeed
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore

RANDOM = np.random.default_rng(3)
SENTENCES = [RANDOM.integers(4, 50, RANDOM.integers(1, 9)).tolist() for _ in range(60)]
STORES = [
    TokenStore.of(source=SENTENCES[:40], target=SENTENCES[20:]),
    TokenStore.of(source=SENTENCES[:9], target=SENTENCES[9:18]),
]
FEED = RowFeed(STORES, [1.0, 1.5], PairCollator(), seed=5, batch_tokens=50)


class CountingFeed:
    """Four micro-batches an epoch, made of their own indices."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.made = 0
        self.fails_at = fails_at

    def plan(self, epoch: int) -> Iterator[Indices]:
        return (np.array([epoch, index]) for index in range(4))

    def batch(self, indices: Indices) -> list[int]:
        if self.made == self.fails_at:
            raise UserError("the disk is on fire")
        self.made += 1
        return indices.tolist()


def places(served: Sequence[MicroBatch[PairBatch]]) -> list[tuple[int, int, bool, list[int]]]:
    return [(made.epoch, made.index, made.last, made.batch.labels.tolist()) for made in served]


def test_micro_batches_come_in_the_order_of_the_plan_without_end() -> None:
    with Loader(CountingFeed()) as loader:
        served = list(islice(loader, 10))
    assert [(made.epoch, made.index, made.last) for made in served] == [(i // 4, i % 4, i % 4 == 3) for i in range(10)]
    assert all(made.batch == [made.epoch, made.index] for made in served)


def test_starting_anywhere_equals_skipping() -> None:
    size = len(list(FEED.plan(0)))
    with Loader(FEED) as loader:
        whole = places(list(islice(loader, 3 * size)))
    for begin in (0, 1, size - 1, size, size + 2):
        epoch, index, *_ = whole[begin]
        with Loader(FEED, start=(epoch, index), ahead=1) as loader:
            assert places(list(islice(loader, 6))) == whole[begin : begin + 6]


def test_the_end_of_an_epoch_is_the_beginning_of_the_next() -> None:
    with Loader(CountingFeed(), start=(2, 4)) as loader:
        assert next(loader).batch == [3, 0]


def test_a_start_behind_the_plan_is_refused() -> None:
    message = (
        r"^Epoch 2 has 4 micro-batches, but training continues at number 5: the training data or `data.batch_tokens` "
        r"changed since the checkpoint was written\.$"
    )
    with Loader(CountingFeed(), start=(2, 5)) as loader, pytest.raises(UserError, match=message):
        next(loader)


def test_an_epoch_shows_every_pair_of_every_store() -> None:
    with Loader(RowFeed(STORES, [1.0, 1.0], PairCollator(), seed=5, batch_tokens=50)) as loader:
        served = [next(loader)]
        while not served[-1].last:
            served.append(next(loader))
    assert sum(made.batch.sentences for made in served) == 49
    assert sum(made.batch.target_tokens for made in served) == sum(
        int(store.lengths("target").sum()) + len(store) for store in STORES
    )


def test_a_static_feed_has_one_shape() -> None:
    shape = StaticShape.around(tokens=50, max_sentences=6, longest=9)
    ragged = RowFeed(STORES, [1.0, 1.0], PairCollator(), seed=5, batch_tokens=50, max_sentences=shape.max_sentences)
    feed = ragged.placed(shape, pin=False)
    assert isinstance(feed, TrainingFeed)
    assert (feed.static, ragged.static) == (shape, None)
    with Loader(feed) as loader:
        shapes = {(len(made.batch.labels), made.batch.source.layout.sentences) for made in islice(loader, 30)}
    assert shapes == {(50, shape.sentences)}


def test_closing_does_not_wait_for_the_way_to_a_late_start() -> None:
    class EndlessFeed(CountingFeed):
        def plan(self, epoch: int) -> Iterator[Indices]:
            return (np.array([index]) for index in count())

    loader = Loader(EndlessFeed(), start=(0, 10**15))
    loader.close()
    assert "heedful-loader" not in {thread.name for thread in threading.enumerate()}


def test_batches_are_made_ahead_but_not_without_bound() -> None:
    feed = CountingFeed()
    with Loader(feed, ahead=3):
        deadline = time.monotonic() + PATIENCE
        while feed.made < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)
        assert feed.made == 4  # three in the queue, one in hand


def test_closing_stops_the_thread_and_may_be_repeated() -> None:
    before = threading.active_count()
    loader = Loader(CountingFeed(), ahead=1)
    next(loader)
    loader.close()
    loader.close()
    assert threading.active_count() == before
    with pytest.raises(StopIteration):
        next(loader)


def test_an_error_in_the_thread_reaches_the_consumer_in_its_turn() -> None:
    before = threading.active_count()
    loader = Loader(CountingFeed(fails_at=2))
    assert next(loader).batch == [0, 0]
    assert next(loader).batch == [0, 1]
    with refuses("...the disk is on fire..."):
        next(loader)
    assert threading.active_count() == before
