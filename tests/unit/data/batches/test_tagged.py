"""Batches of words: where each word begins, which label it has, and what fills a batch up."""

from typing import Any

import numpy as np
import pytest

from heedful.base.packed import IGNORED
from heedful.data.batches.tagged import TaggedCollator
from heedful.data.collate import StaticShape
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END

STORES = [
    TokenStore.of(text=[[5, 6, 7], [8]], words=[[2, 1], [1]], label=[[0, 1], [2]], part=[[0], [0]]),
    TokenStore.of(text=[[9, 10, 11, 12]], words=[[1, 3]], label=[[2, 0]], part=[[0]]),
]
FORMS: dict[str, dict[str, Any]] = {
    "ragged": {},
    "multiple": {"multiple": 16},
    "static": {"static": StaticShape.around(tokens=40, max_sentences=5, longest=8)},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("most_words", [None, 2])
def test_every_word_points_at_its_first_piece_and_has_its_label(form: str, most_words: int | None) -> None:
    order = np.array([2, 0, 1])
    batch = TaggedCollator(most_words).batch(STORES, order, **FORMS[form])
    assert batch.text.values[:13].tolist() == [BEGIN, 9, 10, 11, 12, END, BEGIN, 5, 6, 7, END, BEGIN, 8][:13]
    assert (batch.sentences, batch.tokens, batch.real_words) == (3, 14, 5)
    assert batch.text.values[batch.places[:5]].tolist() == [9, 10, 5, 7, 8]
    assert batch.labels[:5].tolist() == [2, 0, 0, 1, 2]
    assert (batch.labels[5:] == IGNORED).all()
    assert batch.words.offsets[:4].tolist() == [0, 2, 4, 5]
    assert batch.words.tokens == len(batch.places) == len(batch.labels)
    assert batch.labels_of_rows() == [[2, 0], [0, 1], [2]]


def test_static_batches_all_have_one_shape() -> None:
    collator, static = TaggedCollator(2), FORMS["static"]["static"]
    made = [collator.batch(STORES, np.array(rows), static) for rows in ([0], [1, 2], [0, 1, 2])]
    assert (
        len({(len(batch.text.values), len(batch.places), batch.words.sentences, batch.words.bound) for batch in made})
        == 1
    )
    assert made[0].words.bound == 2


def test_costs_count_the_markers() -> None:
    (costs,) = TaggedCollator().costs(STORES, np.array([0, 1, 2]))
    assert costs.tolist() == [5, 3, 6]


def test_a_batch_without_labels_has_none_that_count() -> None:
    store = TokenStore.of(text=[[5]], words=[[1]], part=[[0]])
    assert TaggedCollator().batch([store], np.arange(1)).labels.tolist() == [IGNORED]
