"""A projection is split into views, and its gradient joined again."""

import torch

from heedful.nn.attention.heads import _Split, split_heads


def test_parts_are_views_in_order() -> None:
    projected = torch.randn(5, 3 * 2 * 4)
    q, k, v = split_heads(projected, 3, 2)
    assert torch.equal(torch.stack((q, k, v), 1).flatten(1), projected)
    assert v.data_ptr() == projected.data_ptr() + 16 * projected.element_size()


def test_gradients_side_by_side_are_joined_without_a_copy() -> None:
    joined = torch.randn(5, 3, 2, 4)
    back, *_ = _Split.backward(None, *joined.unbind(1))
    assert torch.equal(back, joined.flatten(1))
    assert back.data_ptr() == joined.data_ptr()


def test_gradients_that_stand_apart_or_in_another_order_are_joined_with_one() -> None:
    joined = torch.randn(5, 2, 2, 4)
    first, second = joined.unbind(1)
    for gradients in ((second, first), (first.clone(), second), (first, second.clone()), (first, first)):
        back, *_ = _Split.backward(None, *gradients)
        assert torch.equal(back, torch.stack(gradients, 1).flatten(1))


def test_gradients_of_the_split_equal_those_of_plain_views() -> None:
    projected = torch.randn(5, 16, dtype=torch.float64, requires_grad=True)
    factors = torch.randn(2, 5, 2, 4, dtype=torch.float64)
    found = torch.stack(_Split.apply(projected, 2, 2))  # type: ignore[no-untyped-call]
    (gradient,) = torch.autograd.grad((found * factors).sum(), projected)
    plain = torch.stack(split_heads(projected, 2, 2))
    assert torch.equal(gradient, torch.autograd.grad((plain * factors).sum(), projected)[0])
