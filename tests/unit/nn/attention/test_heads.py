"""A projection is split into views, and its gradient joined again."""

import torch
from tests.shared.refusals import refuses

from heedful.nn.attention.heads import Heads, OwnKeys, SharedKeys, UnequalWidths, _Split, split_heads


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


def test_heads_that_share_keys_read_those_of_their_group() -> None:
    """Six heads in two groups: the first three read the first head of keys and of values."""
    split, projected = SharedKeys(heads=6, groups=2), torch.randn(5, (6 + 2 + 2) * 4)
    q, k, v = split.split_all(projected)
    for head in range(6):
        group = head // 3
        assert torch.equal(q[:, head], projected[:, 4 * head :][:, :4])
        assert torch.equal(k[:, head], projected[:, 4 * (6 + group) :][:, :4])
        assert torch.equal(v[:, head], projected[:, 4 * (8 + group) :][:, :4])
    for found, expected in zip(split.split_memory(projected[:, 24:]), (k, v), strict=True):
        assert torch.equal(found, expected)


def test_heads_know_the_rows_of_their_projections() -> None:
    assert Heads.of(24, 4).rows == (24, 24, 24)
    assert Heads.of(24, 4, 2).rows == (24, 12, 12)
    assert Heads.of(24, 4, 1).rows == (24, 6, 6)
    wide = Heads.of(24, 4, 2, key_width=5, value_width=9)
    assert (wide.rows, wide.outputs, wide.cached_width) == ((20, 10, 18), 36, 9)


def test_as_many_key_heads_as_heads_are_their_own() -> None:
    assert Heads.of(24, 4).split() == Heads.of(24, 4, 4, 3, 3).split() == OwnKeys(4)
    assert Heads.of(24, 4, 2).split() == SharedKeys(4, 2)
    assert Heads.of(24, 4, 2, value_width=5).split() == UnequalWidths(4, 2, 6)
    with refuses("4 heads cannot share 3 heads of keys and values evenly", ValueError):
        Heads.of(24, 4, 3)
