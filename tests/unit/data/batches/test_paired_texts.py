"""Batches of pairs that are read one by one, against a naive loop."""

import numpy as np
import pytest
import torch

from heedful.base.packed import IGNORED
from heedful.data.batches.texts import Cut, PairedTextCollator
from heedful.data.collate import StaticShape
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END

TEXTS = [[5, 6, 7, 8, 9], [10, 4], [11], []]
SECONDS = [[4], [5, 6, 7, 8, 9, 10], [9, 9], [10, 11]]
STORE = TokenStore.of(text=TEXTS, second=SECONDS, label=[[0], [2], [1], [2]])
ROOM = 4


def shortened(pieces: list[int], cut: Cut) -> list[int]:
    if len(pieces) <= ROOM:
        return pieces
    return {"end": pieces[:ROOM], "start": pieces[-ROOM:], "middle": pieces[:2] + pieces[-2:]}[cut]


@pytest.mark.parametrize("cut", ["end", "start", "middle"])
@pytest.mark.parametrize("multiple", [1, 64])
def test_texts_and_seconds_take_turns_each_cut_by_itself(cut: Cut, multiple: int) -> None:
    rows = [2, 0, 3, 1]
    batch = PairedTextCollator(ROOM + 2, cut).batch([STORE], np.array(rows), multiple=multiple)
    expected = [[BEGIN, *shortened(side[row], cut), END] for row in rows for side in (TEXTS, SECONDS)]
    found = [values.tolist() for values in batch.inputs.split()]  # type: ignore[union-attr]
    assert found[: len(expected)] == expected
    assert len(found) % 2 == 0
    assert batch.labels.tolist() == [1, 0, 2, 2] + [IGNORED] * (len(found) // 2 - 4)
    assert (batch.sentences, batch.tokens) == (4, sum(map(len, expected)))
    costs = [len(expected[2 * pair]) + len(expected[2 * pair + 1]) for pair in range(4)]
    assert PairedTextCollator(ROOM + 2, cut).costs([STORE], np.array(rows))[0].tolist() == costs


def test_batches_of_one_shape_differ_in_their_values_alone() -> None:
    collator, shape = PairedTextCollator(ROOM + 2), StaticShape.around(48, 8, ROOM + 2)
    one, two = (collator.batch([STORE], np.array(rows), shape) for rows in ([0, 1, 2, 3], [2]))
    assert one.inputs.values.shape == two.inputs.values.shape == (48,)  # type: ignore[union-attr]
    assert one.labels.shape == two.labels.shape == (8,)
    assert one.inputs.layout.sentences == 16  # type: ignore[union-attr]


def test_an_odd_number_of_dummies_gets_a_partner_without_tokens() -> None:
    batch = PairedTextCollator(ROOM + 2).batch([STORE], np.array([2]), multiple=8)
    lengths = batch.inputs.layout.lengths  # type: ignore[union-attr]
    assert lengths.tolist() == [3, 4, 1, 0]
    assert torch.equal(batch.labels, torch.tensor([1, IGNORED]))
