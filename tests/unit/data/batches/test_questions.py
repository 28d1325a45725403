"""Batches of questions: the tokens in their order, where answers may be, and where they are."""

import numpy as np
import torch

from heedful.base.packed import IGNORED
from heedful.data.batches.questions import QuestionCollator
from heedful.data.token_store import TokenStore

FIRST = TokenStore.of(question=[[5, 6], [7]], text=[[8, 9, 10], [11]], answer=[[1, 2], []])
SECOND = TokenStore.of(question=[[12]], text=[[13, 14]], answer=[[0, 0]])


def test_a_row_is_the_question_and_the_text_between_markers() -> None:
    batch = QuestionCollator().batch([FIRST, SECOND], np.array([0, 2, 1]), multiple=8)
    rows = [row.tolist() for row in batch.text.split()]
    assert rows[:3] == [[1, 5, 6, 2, 8, 9, 10, 2], [1, 12, 2, 13, 14, 2], [1, 7, 2, 11, 2]]
    assert set(rows[3]) == {0}
    assert (batch.sentences, batch.tokens) == (3, 19)
    assert batch.starts.tolist() == [5, 3, 0, IGNORED]
    assert batch.ends.tolist() == [6, 3, 0, IGNORED]
    possible = batch.text.with_values(batch.possible).split()
    assert possible[0].tolist() == [True, False, False, False, True, True, True, False]
    assert not possible[3].any()
    segments = batch.text.segments
    assert segments is not None
    assert segments[:8].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_what_a_row_is_to_predict_are_the_tokens_of_its_answer() -> None:
    batch = QuestionCollator().batch([FIRST], np.arange(2))
    assert batch.labels_of_rows() == [[9, 10], [1]]
    assert torch.equal(batch.to(torch.device("cpu")).ends, batch.ends)


def test_tokens_of_the_text_that_the_question_has_too_can_be_marked() -> None:
    store = TokenStore.of(question=[[5, 6], [7]], text=[[6, 9, 5, 7], [7, 5]], answer=[[1, 1], []])
    batch = QuestionCollator(mark_matches=True).batch([store], np.arange(2))
    segments = batch.text.segments
    assert segments is not None
    rows = [row.tolist() for row in batch.text.with_values(segments).split()]
    assert rows == [[0, 0, 0, 0, 2, 1, 2, 1, 1], [0, 0, 0, 2, 1, 1]]


def test_costs_count_the_markers() -> None:
    assert QuestionCollator().costs([FIRST, SECOND], np.array([2, 0]))[0].tolist() == [6, 8]
