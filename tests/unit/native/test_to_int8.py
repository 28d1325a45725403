"""Rounding to int8: which matrices, what changes nothing when it is done again, and gradients through it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from heedful.native.int8 import (
    Int8Linear,
    Int8Output,
    count_parameters,
    int8_weights,
    is_int8,
    quantize,
    to_int8,
)
from heedful.nn.layers.embedding import Embedding, MixedEmbedding, Output
from heedful.nn.layers.linear import Linear


class Parts(nn.Module):
    """One of each: a tied and an untied embedding, a shared map, recurrent cells, and what is not rounded."""

    def __init__(self) -> None:
        super().__init__()
        self.tied = Embedding(nn.Parameter(torch.randn(5, 4)), None, 0.0)
        self.output = Output(self.tied.weight, nn.Parameter(torch.randn(5)))
        self.mixed = MixedEmbedding([nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(6, 3))], None, 0.0)
        self.one = Linear(4, 3)
        self.same = nn.Sequential(self.one)
        self.cells = nn.LSTM(4, 2)
        self.norm, self.foreign, self.image = nn.LayerNorm(4), nn.Linear(4, 4), nn.Conv2d(1, 1, 2)


ROUNDED = {
    "tied.weight", "mixed.weight", "mixed.others.0", "mixed.mix.project.0.weight", "mixed.mix.project.1.weight",
    "mixed.mix.score.weight", "one.weight", "cells.weight_ih_l0", "cells.weight_hh_l0",
}  # fmt: skip


@given(
    values=st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=30),
    factor=st.sampled_from([1.0, 1e-30, 1e-42]),
)
def test_to_quantize_what_was_quantized_changes_nothing(values: list[float], factor: float) -> None:
    once = quantize(torch.tensor([values]) * factor).floats()
    assert torch.equal(quantize(once).floats(), once)


@given(values=st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=30))
def test_a_value_moves_by_half_a_step_at_most(values: list[float]) -> None:
    given_1K = torch.tensor([values])
    step = given_1K.abs().max() / 127
    assert (quantize(given_1K).floats() - given_1K).abs().max() <= 0.501 * step


def test_the_matrices_of_maps_outputs_embeddings_and_recurrent_cells_are_rounded_and_nothing_else_is() -> None:
    parts = Parts()
    before = {name: weight.detach().clone() for name, weight in parts.named_parameters()}
    assert set(int8_weights(parts)) == ROUNDED
    count = count_parameters(parts)
    to_int8(parts)
    assert is_int8(parts)
    assert isinstance(parts.output, Int8Output)
    assert isinstance(parts.one, Int8Linear)
    assert parts.same[0] is parts.one
    assert parts.output.weight is parts.tied.weight
    for name, weight in before.items():
        owner, _, own = name.rpartition(".")
        now = getattr(parts.get_submodule(owner), own)
        assert torch.equal(now, quantize(weight).floats() if name in ROUNDED else weight), name
    assert count_parameters(parts) == count == sum(weight.numel() for weight in before.values())


def test_to_round_twice_changes_nothing() -> None:
    parts = Parts()
    to_int8(parts)
    made, before = parts.one, {name: weight.clone() for name, weight in parts.named_parameters()}
    to_int8(parts)
    assert parts.one is made
    assert all(torch.equal(weight, before[name]) for name, weight in parts.named_parameters())


@pytest.mark.parametrize("shape", [(7, 4), (2, 3, 4), (4,)])
def test_a_gradient_is_that_of_the_matrix_that_was_not_rounded_in_between(shape: tuple[int, ...]) -> None:
    linear = Int8Linear(torch.randn(3, 4), torch.randn(3))
    x, direction = torch.randn(shape, requires_grad=True), torch.randn(*shape[:-1], 3)
    y: Tensor = linear(x)
    with torch.no_grad():
        assert torch.equal(y, linear(x))
    (gradient,) = torch.autograd.grad((y * direction).sum(), x)
    assert torch.equal(gradient, direction @ linear.weight)
