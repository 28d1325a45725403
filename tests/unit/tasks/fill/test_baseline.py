"""The line that masked language models have to beat: the most frequent token, on the masks of a validation."""

import math
from collections import Counter

import pytest
import torch

from heedful.base.packed import IGNORED, Packed
from heedful.data.batches.masked import MaskedBatch
from heedful.data.token_store import TokenStore
from heedful.tasks.fill import baseline
from heedful.tasks.fill.baseline import fill_as_usual

TRAIN = [TokenStore.of(text=[[5, 6, 5], [7, 5]]), TokenStore.of(text=[[6, 8]])]


def masked(*labels: int) -> MaskedBatch:
    text = Packed.join([torch.zeros(4, dtype=torch.int64)])
    none = torch.zeros(0, dtype=torch.int64)
    return MaskedBatch(text, none, torch.tensor(labels), none, torch.tensor(1.0), 1, 4, len(labels))


def test_every_mask_is_filled_with_the_most_frequent_token() -> None:
    found, sample = fill_as_usual(TRAIN, 10, [masked(5, 6), masked(5, 9, IGNORED)])
    counts = Counter([5, 6, 5, 7, 5, 6, 8])
    assert found.accuracy == 2 / 4
    losses = [-math.log((counts[token] + 1) / (7 + 10)) for token in (5, 6, 5, 9)]
    assert found.likelihood.loss == pytest.approx(sum(losses) / 4)
    assert sample == "the 7 training tokens"


def test_of_many_tokens_those_at_equal_distances_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "_MOST_TOKENS", 4)
    found, sample = fill_as_usual(TRAIN, 10, [masked(5)])  # 5, 5, 5 of the first store, and 6 of the second
    assert (found.accuracy, sample) == (1.0, "4 of 7 training tokens")
