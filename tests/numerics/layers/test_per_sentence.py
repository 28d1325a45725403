"""Sums, maxima and copies over the tokens of each sentence equal loops, and so do their gradients."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.per_sentence import copy_to_tokens, max_per_sentence, sum_per_sentence

LENGTHS = [2, 0, 5, 1, 0]
WIDTH = 3
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
every_device = pytest.mark.parametrize("device", DEVICES)


def layout_on(device: str) -> Layout:
    """The bound of a static shape is greater than any length."""
    return replace(Layout.of(LENGTHS), bound=9).to(torch.device(device))


def values(device: str) -> Tensor:
    return torch.randn(sum(LENGTHS), WIDTH, dtype=torch.float64, device=device, requires_grad=True)


@every_device
def test_sums_and_maxima_are_those_of_each_sentence(device: str) -> None:
    x, layout = values(device), layout_on(device)
    parts = x.detach().split(LENGTHS)
    assert torch.allclose(sum_per_sentence(x, layout), torch.stack([part.sum(0) for part in parts]))
    lowest = torch.full((1, WIDTH), -torch.inf, dtype=torch.float64, device=device)
    assert max_per_sentence(x, layout).equal(torch.stack([torch.cat([part, lowest]).amax(0) for part in parts]))


@every_device
def test_a_vector_comes_once_for_each_token(device: str) -> None:
    vectors = torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0]], device=device)
    assert copy_to_tokens(vectors, layout_on(device)).flatten().tolist() == [1, 1, 3, 3, 3, 3, 3, 4]


@every_device
def test_the_gradient_of_each_is_the_other(device: str) -> None:
    layout, x = layout_on(device), values(device)
    assert torch.autograd.gradcheck(lambda x: sum_per_sentence(x, layout), x)
    vectors = torch.randn(len(LENGTHS), WIDTH, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: copy_to_tokens(v, layout), vectors)
    dy = torch.randn_like(x)
    (found,) = torch.autograd.grad(copy_to_tokens(vectors, layout), vectors, dy)
    assert torch.allclose(found, sum_per_sentence(dy, layout))


@every_device
def test_sums_of_16_bits_are_rounded_once(device: str) -> None:
    """256 + 1 is 256 in bfloat16: added one by one, the ones would be lost."""
    layout = Layout.of([65]).to(torch.device(device))
    x = torch.ones(65, 1, dtype=torch.bfloat16, device=device)
    x[0] = 256
    assert float(sum_per_sentence(x, layout)) == 320


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_adds_in_one_order() -> None:
    layout = Layout.of([700, 3, 900]).to(torch.device("cuda"))
    vectors = torch.randn(3, 64, device="cuda", requires_grad=True)
    dy = torch.randn(1603, 64, device="cuda")
    found = [torch.autograd.grad(copy_to_tokens(vectors, layout), vectors, dy)[0] for _ in range(20)]
    assert all(one.equal(found[0]) for one in found)
