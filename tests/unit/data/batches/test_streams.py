import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.shared.examples import examples

from heedful.base.errors import UserError
from heedful.base.packed import IGNORED, Packed
from heedful.data.batches.windows import StreamBatch, Streams
from heedful.data.collate import StaticShape
from heedful.data.epochs.loader import Feed, Loader, TrainingFeed
from heedful.data.tokenize.tokenizer import BEGIN, END


@given(size=st.integers(2, 60), rows=st.integers(1, 9), length=st.integers(1, 70))
@example(size=9, rows=2, length=3)
@example(size=3, rows=2, length=5)
@example(size=12, rows=3, length=2)
@examples(60)
def test_segments_put_together_are_the_text_cut_into_streams(size: int, rows: int, length: int) -> None:
    rows = min(rows, size - 1)
    text = np.random.default_rng(0).integers(0, 65_536, size).astype(np.uint16)
    streams = Streams.of(text, rows, length)
    inputs: list[list[int]] = [[] for _ in range(rows)]
    labels: list[list[int]] = [[] for _ in range(rows)]
    for index in range(len(streams)):
        batch = streams.segment(index)
        assert batch.inputs.values.dtype == batch.labels.dtype == torch.int64
        assert batch.fresh.tolist() == [index == 0] * rows
        assert 0 < batch.tokens == len(batch.labels) <= rows * length
        if index < len(streams) - 1:  # only the last is shorter
            assert batch.inputs.layout.lengths.tolist() == [length] * rows
        for row, (values, next_ones) in enumerate(zip(batch.inputs.split(), labelled(batch).split(), strict=True)):
            assert len(values) <= length
            inputs[row] += values.tolist()
            labels[row] += next_ones.tolist()
    assert [token for stream in inputs for token in stream] == text[:-1].tolist()
    assert [token for stream in labels for token in stream] == text[1:].tolist()
    sizes = [len(stream) for stream in inputs]
    assert max(sizes) - min(sizes) <= 1


def test_a_text_is_cut_as_the_image_shows() -> None:
    streams = Streams.of([ord(letter) for letter in "abcdefghi"], rows=2, length=3)
    shown = [
        [["".join(map(chr, row.tolist())) for row in side.split()] for side in (batch.inputs, labelled(batch))]
        for batch in map(streams.segment, range(len(streams)))
    ]
    assert shown == [[["abc", "efg"], ["bcd", "fgh"]], [["d", "h"], ["e", "i"]]]


@pytest.mark.parametrize("shift", [0, 4])
def test_the_beginning_of_another_document_is_read_and_not_predicted(shift: int) -> None:
    text = [BEGIN, 4, 5, END, BEGIN, 6, END, BEGIN, 7, END]
    batch = Streams.of(text, 1, 20).segment(0, shift)
    around = [*text[shift:-1], *text[:shift]]
    assert batch.inputs.values.tolist() == around
    after = [IGNORED if token == BEGIN else token for token in text[1:]]
    assert batch.labels.tolist() == after[shift:] + after[:shift]
    assert batch.tokens == 7


def labelled(batch: StreamBatch) -> Packed:
    return batch.inputs.with_values(batch.labels)


def test_a_loader_serves_every_segment_of_every_epoch_in_order_from_anywhere() -> None:
    streams = Streams.of(list(range(100, 132)), rows=3, length=4)
    assert isinstance(streams, Feed)
    assert len(streams) == 3
    expected = [(epoch, index) for epoch in range(3) for index in range(3)]
    for start in (0, 2, 4):
        with Loader(streams, expected[start]) as loader:
            for place in expected[start:]:
                made = next(loader)
                assert (made.epoch, made.index) == place
                assert made.last == (made.index == 2)
                assert torch.equal(made.batch.inputs.values, streams.segment(made.index).inputs.values)


def test_a_batch_takes_over_another_of_its_shape() -> None:
    first, second = (
        StreamBatch(Packed.of(rows), torch.tensor(labels), torch.tensor(fresh), len(labels)).to(torch.device("cpu"))
        for rows, labels, fresh in (([[1, 2], [3]], [4, 5, 6], [True, True]), ([[7], [8, 9]], [1, 2, 3], [False, True]))
    )
    assert first.inputs.layout.keep.tolist() == [[True, True], [True, False]]
    first.copy_(second)
    assert [row.tolist() for row in first.inputs.split()] == [[7], [8, 9]]
    assert first.inputs.layout.keep.tolist() == [[True, False], [True, True]]
    assert first.labels.tolist() == [1, 2, 3]
    assert first.fresh.tolist() == [False, True]


def test_segments_for_a_gpu_have_one_shape_and_leave_out_less_than_one() -> None:
    feed = Streams.of(range(100, 124), rows=2, length=3, seed=1)
    placed = feed.placed(StaticShape(6, 2, 3), pin=False)
    assert isinstance(placed, TrainingFeed)
    assert placed.static == StaticShape(6, 2, 3)
    made = [placed.batch(planned) for planned in placed.plan(0)]
    assert len(made) == 3  # of 11 tokens per stream
    assert {tuple(batch.inputs.layout.lengths.tolist()) for batch in made} == {(3, 3)}
    assert feed.placed(None, pin=False).static is None


def test_a_text_that_does_not_fill_a_segment_is_not_of_one_shape() -> None:
    placed = Streams.of(range(10), rows=2, length=5).placed(StaticShape(10, 2, 5), pin=False)
    assert placed.static is None
    assert [len(placed.batch(planned).labels) for planned in placed.plan(0)] == [9]


@given(size=st.integers(3, 60), rows=st.integers(1, 5), length=st.integers(1, 20), epoch=st.integers(0, 3))
@examples(40)
def test_an_epoch_with_a_seed_begins_elsewhere_and_still_predicts_every_token_once(
    size: int, rows: int, length: int, epoch: int
) -> None:
    text = list(range(100, 100 + size))
    streams = Streams.of(text, min(rows, size - 1), length, seed=7)
    made = [streams.batch(planned) for planned in streams.plan(epoch)]
    again = [streams.batch(planned) for planned in streams.plan(epoch)]
    assert all(torch.equal(one.labels, other.labels) for one, other in zip(made, again, strict=True))
    assert sorted(token for batch in made for token in batch.labels.tolist()) == text[1:]
    for batch in made:
        assert torch.equal(batch.inputs.values + 1, batch.labels)


def test_epochs_begin_at_different_places() -> None:
    streams = Streams.of(range(1000), rows=2, length=10, seed=7)
    firsts = [int(streams.batch(next(streams.plan(epoch))).inputs.values[0]) for epoch in range(4)]
    assert len(set(firsts)) == 4


def test_a_text_too_short_for_its_streams_is_refused() -> None:
    message = r"^A text of 4 tokens is too short for 5 streams: it must have 6 tokens at least, or there must be fewer"
    with pytest.raises(UserError, match=message):
        Streams.of([1, 2, 3, 4], rows=5, length=2)
    assert Streams.of([1, 2], rows=1, length=9).segment(0).labels.tolist() == [2]
