"""The best tokens of a step: the plain reference against sorting a list, and the kernel against the reference."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from heedful.nn.decoding.best_tokens import best_tokens
from heedful.nn.kernels import without_kernels

pytest.importorskip("triton", reason="Triton is not installed here")
from heedful.nn.kernels.best_tokens import best_tokens_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
END = 2
BLOCK = 64
best_tokens_reference = without_kernels()(best_tokens)  # in plain PyTorch
Found = tuple[Tensor, Tensor, Tensor]


def in_small_blocks(
    logits_RV: Tensor, count: int, allowed_V: Tensor, ends_R: Tensor, end: int, scores_RV: Tensor | None = None
) -> Found:
    return best_tokens_kernel(logits_RV, count, allowed_V, ends_R, end, scores_RV, block=BLOCK)


BOTH = pytest.mark.parametrize("find", [best_tokens_reference, in_small_blocks])


def rows(count: int, size: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, each row a view of a longer one; a third of the tokens forbidden; the end for every second row."""
    logits_RV = (torch.randn(count, size + 5) * 4).to(DEVICE, dtype)[:, :size]
    allowed_V = torch.rand(size) > 1 / 3
    allowed_V[END] = True
    return logits_RV, allowed_V.to(DEVICE), (torch.arange(count) % 2 == 0).to(DEVICE)


def best_by_sorting(logits_RV: Tensor, allowed_V: Tensor, ends_R: Tensor) -> list[list[tuple[float, int]]]:
    """The allowed tokens of each row, the best first."""
    return [
        sorted(
            ((score, token) for token, score in enumerate(row) if allowed_V[token] and (token != END or may_end)),
            reverse=True,
        )
        for row, may_end in zip(logits_RV.tolist(), ends_R.tolist(), strict=True)
    ]


def ranked(found: Found, count: int) -> tuple[Tensor, Tensor]:
    """The best of the candidates, as a caller ranks them."""
    scores_RC, order_RC = found[0].topk(count)
    return scores_RC, found[1].gather(1, order_RC)


def test_the_best_are_the_first_of_the_allowed_tokens_in_order() -> None:
    given = rows(6, 150)
    with without_kernels():
        scores_RC, tokens_RC, lse_R = best_tokens(given[0], 7, *given[1:], END)
    for row, best in enumerate(best_by_sorting(*given)):
        assert tokens_RC[row].tolist() == [token for _, token in best[:7]]
        assert scores_RC[row].tolist() == [score for score, _ in best[:7]]
        assert lse_R[row].item() == pytest.approx(math.log(sum(map(math.exp, given[0][row].tolist()))), abs=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("size", "count"), [(64, 1), (150, 1), (150, 5), (200, 8), (70, 33), (3, 2)])
def test_the_best_candidates_of_the_kernel_are_those_of_the_reference(
    size: int, count: int, dtype: torch.dtype
) -> None:
    given = rows(4, size, dtype)
    found = in_small_blocks(given[0], count, *given[1:], END)
    expected = best_tokens_reference(given[0], count, *given[1:], END)
    scores_RC, tokens_RC = ranked(found, count)
    assert torch.equal(scores_RC, expected[0])
    there = scores_RC.isfinite()
    assert torch.equal(given[0].float().gather(1, tokens_RC)[there], scores_RC[there])
    assert given[1][tokens_RC[there]].all()
    for row in range(4):
        chosen = tokens_RC[row][there[row]].tolist()
        assert len(set(chosen)) == len(chosen)
        assert given[2][row] or END not in chosen
    torch.testing.assert_close(found[2], expected[2], atol=1e-5, rtol=1e-5)


def test_a_block_of_the_default_size_takes_a_whole_small_vocabulary() -> None:
    given = rows(2, 100)
    found = best_tokens_kernel(given[0], 3, *given[1:], END)
    assert torch.equal(found[0], best_tokens_reference(given[0], 3, *given[1:], END)[0])


@BOTH
def test_the_end_is_chosen_only_by_rows_that_may_end(find: Callable[..., Found]) -> None:
    logits_RV, allowed_V, ends_R = rows(4, 100)
    logits_RV[:, END] = 50.0
    _, tokens_RC = ranked(find(logits_RV, 1, allowed_V, ends_R, END), 1)
    assert (tokens_RC[:, 0] == END).tolist() == ends_R.tolist()
    allowed_V[END] = False
    _, tokens_RC = ranked(find(logits_RV, 1, allowed_V, ends_R, END), 1)
    assert END not in tokens_RC.tolist()


@BOTH
def test_forbidden_tokens_count_in_the_sum(find: Callable[..., Found]) -> None:
    logits_RV, allowed_V, ends_R = rows(3, 100)
    nothing = find(logits_RV, 2, torch.zeros_like(allowed_V), ends_R, END)
    everything = find(logits_RV, 2, torch.ones_like(allowed_V), ends_R, END)
    assert torch.equal(nothing[2], everything[2])
    torch.testing.assert_close(nothing[2], logits_RV.exp().sum(-1).log())


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tokens_are_ranked_by_other_scores_and_the_sum_stays_that_of_the_logits(
    find: Callable[..., Found], dtype: torch.dtype
) -> None:
    given, scores_RV = rows(3, 150, dtype), torch.randn(3, 150, device=DEVICE)
    scores_RV[:, 60:] = -math.inf
    found = find(given[0], 5, *given[1:], END, scores_RV)
    expected = best_tokens_reference(scores_RV, 5, *given[1:], END)
    for mine, other in zip(ranked(found, 5), ranked(expected, 5), strict=True):
        assert torch.equal(mine, other)
    assert torch.equal(found[2], find(given[0], 5, *given[1:], END)[2])


@BOTH
@pytest.mark.parametrize("size", [4, 66, 100])
def test_where_fewer_are_allowed_than_asked_for_the_rest_is_minus_infinity(
    find: Callable[..., Found], size: int
) -> None:
    """Also where a vocabulary, or its last block, holds fewer tokens than asked for."""
    logits_RV, allowed_V, _ = rows(2, size)
    allowed_V[:] = False
    allowed_V[[END, size - 1, 0]] = True
    found = find(logits_RV, 6, allowed_V, torch.tensor([True, False], device=DEVICE), END)
    scores_RC, tokens_RC = ranked(found, 6)
    assert scores_RC.isfinite().sum(1).tolist() == [3, 2]
    assert scores_RC[~scores_RC.isfinite()].unique().tolist() == [-math.inf]
    assert sorted(tokens_RC[0, :3].tolist()) == sorted((0, END, size - 1))
    assert sorted(tokens_RC[1, :2].tolist()) == [0, size - 1]
    assert found[1].min() >= 0
    assert found[1].max() < size  # what means nothing is still a token


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equal_logits_give_each_token_once(find: Callable[..., Found], dtype: torch.dtype) -> None:
    logits_RV = torch.tensor([[-1.5], [0.0], [2.0]]).expand(3, 150).to(DEVICE, dtype)
    everything = torch.ones(150, dtype=torch.bool, device=DEVICE)
    found = find(logits_RV.contiguous(), 9, everything, everything[:3], END)
    for tokens in found[1].tolist():
        assert len(set(tokens)) == len(tokens)
    assert found[0].unique(dim=1).flatten().tolist() == [-1.5, 0.0, 2.0]


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.filterwarnings("ignore:divide by zero")  # numpy's word for log(0), in Triton's interpreter
def test_logits_of_minus_infinity_weigh_nothing_and_come_last(find: Callable[..., Found], dtype: torch.dtype) -> None:
    logits_RV, allowed_V, ends_R = rows(2, 150, dtype)
    logits_RV[0, :140] = -torch.inf  # two whole blocks
    logits_RV[1] = -torch.inf
    allowed_V[140:] = True
    scores_RC, tokens_RC, lse_R = find(logits_RV, 4, allowed_V, ends_R, END)
    best = best_by_sorting(logits_RV, allowed_V, ends_R)[0][:4]
    assert ranked((scores_RC, tokens_RC, lse_R), 4)[0][0].tolist() == [score for score, _ in best]
    assert scores_RC[1].unique().tolist() == [-math.inf]
    torch.testing.assert_close(lse_R[0], logits_RV[0, 140:].float().logsumexp(-1))
    assert lse_R[1].item() == -math.inf


@BOTH
def test_negative_logits_are_ranked_as_well_as_positive_ones(find: Callable[..., Found]) -> None:
    """From very small to very great ones."""
    logits_RV = torch.tensor([[-1e38, -1e-30, 1e-30, 1e38, -1.0, 1.0, -2.0, -0.5]], device=DEVICE).bfloat16()
    everything = torch.ones(8, dtype=torch.bool, device=DEVICE)
    _, tokens_RC = ranked(find(logits_RV, 8, everything, everything[:1], END), 8)
    assert tokens_RC.tolist() == [[3, 5, 2, 1, 7, 4, 6, 0]]
