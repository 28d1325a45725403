import torch
from torch import Tensor, nn

from heedful.nn.linear import LayerNorm
from heedful.nn.residual import Residual


def double(x: Tensor) -> Tensor:
    return 2 * x + 1


def standardised(x: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)) / (x.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()


def test_post_norm_stands_behind_the_sum() -> None:
    x = torch.randn(5, 8, dtype=torch.float64)
    residual = Residual(nn.Identity(), LayerNorm(8, dtype=torch.float64), 0.0)
    torch.testing.assert_close(residual(x, double), standardised(x + 2 * x + 1))


def test_pre_norm_stands_before_the_sublayer_and_leaves_the_sum_alone() -> None:
    x = torch.randn(5, 8, dtype=torch.float64)
    residual = Residual(LayerNorm(8, dtype=torch.float64), nn.Identity(), 0.0)
    torch.testing.assert_close(residual(x, double), x + 2 * standardised(x) + 1)


def test_dropout_touches_the_sublayers_answer_and_not_the_skip() -> None:
    """Every value is x, or x + f(x) / (1 - p): never 0."""
    x = torch.randn(50, 8, dtype=torch.float64)
    residual = Residual(nn.Identity(), nn.Identity(), 0.5)
    torch.manual_seed(1)
    added = residual(x, double) - x
    dropped = added == 0
    assert 0.3 < dropped.double().mean() < 0.7
    torch.testing.assert_close(added[~dropped], 2 * double(x)[~dropped])
