"""Windows of running text: what is predicted, and what is not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses

from heedful.base.packed import IGNORED
from heedful.data.batches.windows import Borders, SlidingWindows, WindowBatch, WindowFeed
from heedful.data.collate import StaticShape
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END

TEXTS = [[BEGIN, 5, 6, 7, END], [BEGIN, END], [BEGIN, *range(10, 30), END], [BEGIN, 8, END]]
PREDICTED = sorted(token for text in TEXTS for token in text[1:])


@pytest.mark.parametrize("borders", ["closed", "open"])
@pytest.mark.parametrize("stride", [1, 3, 6])
def test_every_token_is_predicted_once_but_not_that_a_text_begins(borders: Borders, stride: int) -> None:
    windows = SlidingWindows([TokenStore.of(text=TEXTS)], 6, stride, borders, batch_tokens=12)
    batches = [windows.batch(planned) for planned in windows.plan()]
    labels = torch.cat([batch.labels for batch in batches])
    assert sorted(labels[labels != IGNORED].tolist()) == PREDICTED
    assert sum(batch.target_tokens for batch in batches) == len(PREDICTED)


@pytest.mark.parametrize("borders", ["closed", "open"])
def test_an_epoch_predicts_every_token_once_but_not_that_a_text_begins(borders: Borders) -> None:
    fed = replace(feed(borders), multiple=8)
    batches = [fed.batch(planned) for planned in fed.plan(epoch=3)]
    labels = np.concatenate([batch.labels.numpy() for batch in batches])
    assert sorted(labels[labels != IGNORED].tolist()) == PREDICTED
    assert sum(batch.tokens for batch in batches) == len(PREDICTED)


def feed(borders: Borders, static: StaticShape | None = None, texts: list[list[int]] = TEXTS) -> WindowFeed:
    return WindowFeed(
        [TokenStore.of(text=texts)], [1.0], 1, batch_tokens=12, max_length=6, borders=borders, static=static
    )


def windows_of(batch: WindowBatch) -> list[tuple[list[int], list[int]]]:
    """Tokens and labels of each real window."""
    tokens = batch.inputs.split()[: batch.sentences]
    labels = batch.labels.split(batch.inputs.layout.lengths.tolist())[: batch.sentences]
    return [(one.tolist(), other.tolist()) for one, other in zip(tokens, labels, strict=True)]


def test_a_label_is_the_token_after_its_token_and_a_closed_window_stays_in_its_text() -> None:
    fed = feed("closed")
    for planned in fed.plan(epoch=0):
        for tokens, labels in windows_of(fed.batch(planned)):
            assert tokens[1:] == labels[:-1]
            assert any(" ".join(map(str, [*tokens, labels[-1]])) in " ".join(map(str, text)) for text in TEXTS)


def test_the_cuts_of_an_epoch_are_always_the_same_and_those_of_another_are_different() -> None:
    texts = [[BEGIN, *range(4, 100), END]]
    first, again, other = (
        np.concatenate([planned.begins for planned in feed("open", texts=texts).plan(epoch)]) for epoch in (0, 0, 1)
    )
    assert first.tolist() == again.tolist()
    assert sorted(first.tolist()) != sorted(other.tolist())


def test_rows_of_an_even_shape_are_all_full_and_what_fills_them_has_no_label() -> None:
    static = StaticShape.rows(13, 6)
    assert (static.tokens, static.sentences, static.max_sentences) == (12, 2, 2)
    plain, fed = feed("open"), feed("open", static)
    labels = []
    for planned in fed.plan(epoch=0):
        batch = fed.batch(planned)
        assert batch.inputs.layout.even
        assert (batch.inputs.layout.sentences, batch.inputs.layout.tokens) == (2, 12)
        assert int((batch.labels != IGNORED).sum()) == batch.target_tokens
        labels += batch.labels[batch.labels != IGNORED].tolist()
    assert sorted(labels) == sorted(
        label
        for planned in plain.plan(epoch=0)
        for _, of_window in windows_of(plain.batch(planned))
        for label in of_window
        if label != IGNORED
    )


def test_weights_show_the_windows_of_a_store_more_often() -> None:
    store = TokenStore.of(text=[[BEGIN, *range(4, 60), END]])
    twice = WindowFeed([store, store], [2.0, 1.0], 1, batch_tokens=12, max_length=6, borders="closed")
    owners = np.concatenate([planned.stores for planned in twice.plan(epoch=0)])
    counts = np.bincount(owners)
    assert 1.5 * counts[1] <= counts[0] <= 2.5 * counts[1]  # the cuts of the two are drawn separately


def test_texts_that_do_not_fill_a_window_are_refused() -> None:
    with refuses(
        "The texts have 4 tokens, which do not fill one window of `data.max_length` (6) tokens: give more text, or "
        "lower it."
    ):
        feed("open", texts=[[BEGIN, 5, 6, END]])
