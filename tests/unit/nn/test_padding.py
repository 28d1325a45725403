from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.examples import examples

from heedful.base.packed import Layout
from heedful.nn.padding import pad, unpad

# Empty sentences and a bound above the longest: what a static layout has.
lengths = st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any)
slack = st.integers(0, 3)


@given(lengths=lengths, slack=slack)
def test_every_token_is_padded_to_its_place(lengths: list[int], slack: int) -> None:
    layout = replace(Layout.of(lengths), bound=max(lengths) + slack)
    values = torch.arange(2 * layout.tokens).view(-1, 2)
    rows = pad(values, layout)
    assert rows.shape == (len(lengths), layout.bound, 2)
    start = 0
    for row, length in zip(rows, lengths, strict=True):
        assert torch.equal(row[:length], values[start : start + length])
        start += length


@given(lengths=lengths, slack=slack)
def test_unpadding_undoes_padding(lengths: list[int], slack: int) -> None:
    layout = replace(Layout.of(lengths), bound=max(lengths) + slack)
    values = torch.randn(layout.tokens, 3, 2)
    assert torch.equal(unpad(pad(values, layout), layout), values)


@pytest.mark.parametrize(("lengths", "bound"), [([3, 1, 2], 3), ([2, 2], 2), ([4], 4), ([2, 0, 1], 5)])
def test_padding_has_the_gradients_of_finite_differences(lengths: list[int], bound: int) -> None:
    """Under a loss that looks at real places alone, as every user of padding must."""
    layout = replace(Layout.of(lengths), bound=bound)
    values = torch.randn(layout.tokens, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: pad(x, layout)[layout.keep].square(), values)


@pytest.mark.parametrize(("lengths", "bound"), [([3, 1, 2], 3), ([2, 2], 2), ([4], 4), ([2, 0, 1], 5)])
def test_unpadding_has_the_gradients_of_finite_differences(lengths: list[int], bound: int) -> None:
    layout = replace(Layout.of(lengths), bound=bound)
    rows = torch.randn(len(lengths), bound, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: unpad(x, layout).square(), rows)


@examples(30)
@given(lengths=lengths)
def test_what_stands_behind_a_sentences_end_has_no_gradient(lengths: list[int]) -> None:
    layout = replace(Layout.of(lengths), bound=max(lengths) + 1)
    rows = torch.randn(len(lengths), layout.bound, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad(unpad(rows, layout).sum(), rows)
    assert torch.equal(gradient[..., 0] == 1, layout.keep)
    assert torch.equal(gradient[..., 1] == 0, ~layout.keep)
