"""The best tokens of each row: exact, whatever shortcut finds them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.tokens import NEVER, Never
from heedful.decode.frontiers.token_scores import USUAL, Scores

NOTHING_SAID = torch.tensor([[1]])


def best_tokens(logits_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    never = Never.of((), torch.device("cpu"))
    return Scores.of(logits_RV, (never,), NOTHING_SAID.expand(len(logits_RV), 1), USUAL).best(count)


@given(rows=st.integers(1, 5), words=st.integers(4, 700), count=st.integers(1, 12), seed=st.integers(0, 99))
def test_the_best_tokens_are_those_of_a_full_sort(rows: int, words: int, count: int, seed: int) -> None:
    logits_RV = 3 * torch.randn(rows, words, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    expected_RV = logits_RV.log_softmax(1)
    expected_RV[:, list(NEVER)] = -math.inf
    best_RC, tokens_RC = best_tokens(logits_RV.clone(), count)
    ranked = expected_RV.sort(1, descending=True)
    torch.testing.assert_close(best_RC, ranked.values[:, :count], atol=1e-12, rtol=0)
    possible = best_RC.isfinite()
    assert torch.equal(tokens_RC[possible], ranked.indices[:, :count][possible])


def test_markers_and_the_unknown_piece_are_never_chosen_and_keep_their_probability() -> None:
    logits_RV = torch.tensor([[9.0, 9.0, 1.0, 9.0, 2.0]])
    expected = logits_RV.log_softmax(1)[0, 4]
    log_p_RC, tokens_RC = best_tokens(logits_RV.clone(), 2)
    assert tokens_RC.tolist() == [[4, END]]
    assert float(log_p_RC[0, 0]) == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize(
    ("given_type", "summed_in"),
    [(torch.bfloat16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)],
)
def test_probabilities_are_float32_or_wider(given_type: torch.dtype, summed_in: torch.dtype) -> None:
    assert best_tokens(torch.randn(2, 30).to(given_type), 3)[0].dtype == summed_in


def test_great_scores_do_not_overflow() -> None:
    log_p_RC, _ = best_tokens(torch.tensor([[0.0, 0.0, 500.0, 0.0, 499.0]]), 1)
    assert float(log_p_RC) == pytest.approx(-math.log1p(math.exp(-1)), abs=1e-6)


def test_the_whole_vocabulary_counts_in_log_p_whatever_is_forbidden() -> None:
    logits_RV = torch.randn(3, 40, dtype=torch.float64)
    wanted_RV = logits_RV.log_softmax(1)
    most = Never.of(range(4, 39), torch.device("cpu"))
    scores = Scores.of(logits_RV.clone(), (most,), NOTHING_SAID.expand(3, 1), USUAL)
    log_p_RC, tokens_RC = scores.best(2)
    torch.testing.assert_close(log_p_RC, wanted_RV.gather(1, tokens_RC))
    assert sorted(tokens_RC[0].tolist()) == [END, 39]
