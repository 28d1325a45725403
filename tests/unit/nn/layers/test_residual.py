from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from heedful.nn.kernels import without_kernels
from heedful.nn.layers.linear import LayerNorm, RMSNorm
from heedful.nn.layers.residual import Residual

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # on the CPU Triton interprets the kernels


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


def test_a_learned_branch_is_closed_at_first_and_opened_by_its_gradient() -> None:
    x = torch.randn(5, 8, dtype=torch.float64)
    residual = Residual(nn.Identity(), nn.Identity(), 0.0, learned=True).double()
    assert torch.equal(residual(x, double), x)
    assert residual.weight is not None
    residual(x, double).sum().backward()
    torch.testing.assert_close(residual.weight.grad, double(x).sum())
    nn.init.constant_(residual.weight, 0.3)
    torch.testing.assert_close(residual(x, double), x + 0.3 * double(x))


def test_a_skip_can_weigh_more_than_its_branch() -> None:
    x = torch.randn(5, 8, dtype=torch.float64)
    residual = Residual(nn.Identity(), LayerNorm(8, dtype=torch.float64), 0.0, skip=3.0)
    torch.testing.assert_close(residual(x, double), standardised(3 * x + 2 * x + 1))


def test_dropout_touches_the_sublayers_answer_and_not_the_skip() -> None:
    """Every value is x, or x + f(x) / (1 - p): never 0."""
    x = torch.randn(50, 8, dtype=torch.float64)
    residual = Residual(nn.Identity(), nn.Identity(), 0.5)
    torch.manual_seed(1)
    added = residual(x, double) - x
    dropped = added == 0
    assert 0.3 < dropped.double().mean() < 0.7
    torch.testing.assert_close(added[~dropped], 2 * double(x)[~dropped])


@pytest.mark.parametrize("made", [LayerNorm, partial(LayerNorm, bias=False), RMSNorm], ids=["layer", "unbiased", "rms"])
@pytest.mark.parametrize("norm", ["pre", "post", "deepnorm", "rezero"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_kernels_change_no_values_and_no_gradients(
    made: Callable[..., nn.Module], norm: str, dtype: torch.dtype, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They leave float64 to torch."""
    pytest.importorskip("triton")
    placed = (nn.Identity(), made(12, dtype=dtype))
    before, after = placed if norm in ("post", "deepnorm") else placed[::-1]
    skip, learned = 1.5 if norm == "deepnorm" else 1.0, norm == "rezero"
    residual = Residual(before, after, 0.5, skip, learned).eval().to(DEVICE, dtype)
    with torch.no_grad():
        for parameter in residual.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    x, slopes = torch.randn(2, 7, 12, dtype=dtype, device=DEVICE)
    x.requires_grad_()

    def answers() -> list[Tensor]:
        y = residual(x, double)
        return [y, *torch.autograd.grad(y, [x, *residual.parameters()], slopes)]

    with without_kernels():
        plain = answers()
    for module in ("residual", "linear"):
        monkeypatch.setattr(f"heedful.nn.layers.{module}.use_kernels", lambda _: True)
    for found, expected in zip(answers(), plain, strict=True):
        torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


def test_kernels_drop_in_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr("heedful.nn.layers.residual.use_kernels", lambda _: True)
    x = torch.randn(50, 8, device=DEVICE)
    residual = Residual(nn.Identity(), nn.Identity(), 0.5)
    added = residual(x, torch.ones_like) - x
    assert set(added.round(decimals=4).unique().tolist()) == {0.0, 2.0}
    torch.testing.assert_close(residual.eval()(x, torch.ones_like), x + 1)
