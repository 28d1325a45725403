import math

import pytest
import torch

from heedful.nn.layers.dropout import Dropout, LayerDrop, dropout_mask

DRAWS = 400_003  # no multiple of the four draws in a random number


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_a_mask_keeps_its_share_and_the_mean(share: float) -> None:
    """Both within five sigma of a Bernoulli variable."""
    torch.manual_seed(1)
    mask = dropout_mask(torch.empty(DRAWS, dtype=torch.float64), share)
    assert mask.unique().tolist() == pytest.approx([0, 1 / (1 - share)])
    sigma = math.sqrt(share * (1 - share) / DRAWS)
    assert abs(float((mask == 0).double().mean()) - share) < 5 * sigma
    assert abs(float(mask.mean()) - 1) < 5 * sigma / (1 - share)


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 5])
def test_draws_are_independent_of_their_neighbours(distance: int) -> None:
    """Four of them come from one random number: their correlation is zero within five sigma."""
    torch.manual_seed(2)
    kept = (dropout_mask(torch.empty(DRAWS, dtype=torch.float64), 0.3) != 0).double()
    left, right = kept[:-distance], kept[distance:]
    correlation = float(((left - 0.7) * (right - 0.7)).mean() / (0.3 * 0.7))
    assert abs(correlation) < 5 / math.sqrt(len(left))


@pytest.mark.parametrize("lane", range(4))
def test_every_lane_of_a_random_number_keeps_its_share(lane: int) -> None:
    torch.manual_seed(3)
    kept = dropout_mask(torch.empty(DRAWS), 0.1)[lane::4] != 0
    assert abs(float(kept.double().mean()) - 0.9) < 5 * math.sqrt(0.09 / len(kept))


def test_a_share_just_below_one_drops_nearly_all() -> None:
    torch.manual_seed(4)
    assert int((dropout_mask(torch.empty(DRAWS), 1 - 1e-9) != 0).sum()) < 5 + DRAWS // 6553


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_mask_has_the_shape_and_type_of_what_it_masks(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    like = torch.empty(shape, dtype=dtype)
    mask = dropout_mask(like, 0.1)
    assert (mask.shape, mask.dtype) == (like.shape, dtype)
    scale = torch.tensor(1 / 0.9, dtype=dtype)  # of 8 bits in bfloat16, as torch's own
    assert ((mask == 0) | (mask == scale)).all()


def test_the_gradient_passes_where_the_value_did() -> None:
    x = torch.randn(100, 7, requires_grad=True)
    y = Dropout(0.4)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(y.detach(), x.detach() * gradient)


def test_the_same_seed_draws_the_same_mask() -> None:
    drop, x = Dropout(0.4), torch.ones(100)
    torch.manual_seed(5)
    first, second = drop(x), drop(x)
    torch.manual_seed(5)
    assert torch.equal(drop(x), first)
    assert not torch.equal(first, second)


def test_nothing_is_dropped_outside_training_or_at_a_share_of_zero() -> None:
    x = torch.randn(10)
    assert Dropout(0.9).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_the_share_is_shown() -> None:
    assert repr(Dropout(0.25)) == "Dropout(share=0.25)"


def test_a_layer_is_left_out_as_a_whole_and_in_training_alone() -> None:
    torch.manual_seed(0)
    x, y = torch.zeros(3, 2), torch.ones(3, 2)
    drop = LayerDrop(0.3)
    chosen = torch.stack([drop(x, y) for _ in range(2000)])
    assert ((chosen == 0).all(dim=(1, 2)) | (chosen == 1).all(dim=(1, 2))).all()
    assert abs(float((chosen[:, 0, 0] == 0).double().mean()) - 0.3) < 5 * math.sqrt(0.3 * 0.7 / 2000)
    assert torch.equal(drop.eval()(x, y), y)
    assert torch.equal(LayerDrop(0.0)(x, y), y)
