"""Windows of running text: what is predicted, and what is not."""

import numpy as np
import pytest
import torch

from heedful.data.batches.sliding_windows import SlidingWindows
from heedful.data.batches.windows import Borders, WindowFeed
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.packed import IGNORED

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
    feed = WindowFeed([TokenStore.of(text=TEXTS)], [1.0], 1, batch_tokens=12, max_length=6, borders=borders, multiple=8)
    batches = [feed.batch(planned) for planned in feed.plan(epoch=3)]
    labels = np.concatenate([batch.labels.numpy() for batch in batches])
    assert sorted(labels[labels != IGNORED].tolist()) == PREDICTED
    assert sum(batch.tokens for batch in batches) == len(PREDICTED)
