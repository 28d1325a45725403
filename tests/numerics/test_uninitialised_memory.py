"""Memory that nobody wrote is never read: with NaN in every new empty tensor, all results have the same bits.

On a CPU, where Triton's interpreter runs the kernels of a GPU. `torch.empty` has the values of what was freed before:
one that reads it works in most runs, and is not finite in others.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.golden.cases.curves import CASES
from tests.golden.curves import curve
from tests.shared.covering import one_in
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.attention.backends import PackedHeads, short
from heedful.nn.kernels import chain_sums
from heedful.nn.kernels.best_tokens import best_tokens_kernel
from heedful.nn.kernels.residual_norm import norm_and_skip, norm_of_sum
from heedful.nn.kernels.residual_sum import dropped_sum
from heedful.nn.kernels.step_attention import attend_memory_kernel, attend_past_kernel
from heedful.nn.layers import linear_gpu
from heedful.nn.losses.cross_entropy_gpu import chunked_cross_entropy

WIDTH = 20  # not a power of two, as 400 and 640 are not
DETERMINISTIC: Any = torch.utils.deterministic


@contextmanager
def empty_tensors(filled: bool) -> Iterator[None]:
    """Fill empty tensors with NaN, and whole numbers with their largest value, or leave them as they are."""
    before = DETERMINISTIC.fill_uninitialized_memory
    try:
        torch.use_deterministic_algorithms(True)
        DETERMINISTIC.fill_uninitialized_memory = filled
        yield
    finally:
        DETERMINISTIC.fill_uninitialized_memory = before
        torch.use_deterministic_algorithms(False)


def leaf(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed + 31 * math.prod(shape)))
    return drawn.to(dtype).requires_grad_()


def norms(dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    x, f, w, b = leaf(5, WIDTH, dtype=dtype), leaf(5, WIDTH, seed=1, dtype=dtype), leaf(WIDTH), leaf(WIDTH, seed=1)
    y, skip = norm_and_skip(norm_of_sum(x, f, w, b, 1e-5, 0.2), w, b, 1e-5)
    return [y, skip, dropped_sum(x, f, 0.2)], [x, f, w, b]


def linears(dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    x, w, b, v, c = leaf(5, WIDTH, dtype=dtype), leaf(9, WIDTH), leaf(9), leaf(WIDTH, 9), leaf(WIDTH)
    plain, relu = linear_gpu.linear(x, w, b), linear_gpu.linear_relu(x, w, b)
    return [plain, relu, *(linear_gpu.gelu_network(x, w, b, v, c, tanh) for tanh in (False, True))], [x, w, b, v, c]


def losses(dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    x, w, b = leaf(6, WIDTH, dtype=dtype), leaf(37, WIDTH), leaf(37)
    return [*chunked_cross_entropy(x, w, b, torch.tensor([3, -100, 36, 0, -100, 7]), 0.1)], [x, w, b]


def attention(causal: bool, bound: int, dropout: float) -> Callable[[torch.dtype], tuple[list[Tensor], list[Tensor]]]:
    def attend(dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
        queries = replace(Layout.of([3, 0, 34, 1, 70, 0]), bound=bound)
        keys = queries if causal else replace(Layout.of([9, 0, 2, 66, 3, 0]), bound=bound)
        q, k, v = (leaf(one.tokens, 2, 12, seed=n, dtype=dtype) for n, one in enumerate((queries, keys, keys)))
        return [short(PackedHeads(q, k, v, queries, keys), causal, dropout)], [q, k, v]

    return attend


KERNELS = {
    "norms": norms,
    "linear maps": linears,
    "losses": losses,
    "attention": attention(False, 70, 0.0),
    "causal attention in static batches": attention(True, 256, 0.2),
}


# Not bfloat16: Triton's interpreter multiplies the bits of such matrices, as whole numbers.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_read_only_what_was_written(name: str, dtype: torch.dtype) -> None:
    found = []
    for filled in (False, True):
        torch.manual_seed(4)
        with empty_tensors(filled):
            outputs, leaves = KERNELS[name](dtype)
            sum((one.float().sum() for one in outputs if one.requires_grad), torch.zeros(())).backward()
            found.append([one.detach().clone() for one in (*outputs, *(x.grad for x in leaves if x.grad is not None))])
    assert all(one.isfinite().all() for one in found[1])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_sums_over_paths_read_only_what_was_written() -> None:
    layout, count, found = Layout.of([4, 1, 0, 7]), 5, []
    x, steps = leaf(layout.tokens, count).detach(), leaf(4, count, count).detach()
    start, end = leaf(4, count).detach(), leaf(4, count, seed=1).detach()
    for filled in (False, True):
        with empty_tensors(filled):
            alphas, totals = chain_sums.sum_forward(x, start, steps, end, layout.offsets, layout.lengths)
            gradients = chain_sums.sum_backward(
                x, steps, end, layout.offsets, layout.lengths, alphas, totals, torch.ones(4)
            )
        found.append((totals, *gradients))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_steps_of_decoding_read_only_what_was_written() -> None:
    generator, found = torch.Generator().manual_seed(7), []
    logits, allowed, ends = torch.randn(3, 150, generator=generator), torch.arange(150) % 3 > 0, torch.arange(3) > 0
    q, k, v, memory_k, memory_v = torch.randn(5, 6, 2, 12, generator=generator).unbind()
    ancestors, positions = torch.zeros(2, 3, 4, dtype=torch.int32), torch.tensor([0, 3], dtype=torch.int32)
    written = torch.randn(2, 2, 4, 3, 2, 12, generator=generator)
    written[:, 0], written[:, 1, 3:] = math.nan, math.nan  # what a slot has not decoded yet
    starts, lengths = torch.tensor([[0, 5], [5, 1]], dtype=torch.int32)
    for filled in (False, True):
        with empty_tensors(filled):
            found.append(
                [
                    *best_tokens_kernel(logits, 7, allowed, ends, 2, None, block=64),
                    attend_past_kernel(q, k, v, written.clone(), ancestors, positions),
                    attend_memory_kernel(q, memory_k, memory_v, starts, lengths),
                ]
            )
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    assert all(one.isfinite().all() for one in found[1][-2:])


@pytest.mark.parametrize("name", one_in(24, CASES))
def test_trainings_read_only_what_was_written(name: str, tmp_path: Path) -> None:
    made = []
    for filled in (False, True):
        home = tmp_path / str(filled)
        home.mkdir()
        with empty_tensors(filled):
            made.append(curve(CASES[name], home))
    assert made[0] == made[1]
