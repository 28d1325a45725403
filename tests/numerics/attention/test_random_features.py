"""The kernel of random features, and attention in linear time."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from tests.numerics.attention.alignment_equations import (
    BATCH,
    HEADS,
    KEYS,
    WIDTH,
    close,
    drawn,
    made,
    softmax,
)
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from heedful.nn.alignments.random_features import (
    Kernel,
    causal_linear_attention,
    linear_attention,
    orthogonal_directions,
)
from heedful.nn.alignments.table import make_alignment
from heedful.nn.attention.explicit import attend

# --- the kernel, and attention in linear time -------------------------------------------------------------------------


def test_the_kernel_is_closer_to_softmax_attention_with_more_features() -> None:
    q, k, v = 0.5 * torch.randn(3, 4, 8, 12, 16, dtype=torch.float64)
    exact = (q @ k.mT / 4).softmax(-1)
    errors = []
    for features in (16, 64, 256, 1024):
        alignment = make_alignment("kernel", 16, 16, 8, features=features).double()
        _, weights = attend(alignment, softmax, q, alignment.prepare(k, v))
        errors.append(float((weights - exact).abs().mean()))
    assert all(more < 0.7 * fewer for fewer, more in pairwise(errors))  # a half is the theory's
    assert errors[-1] < 0.006


def test_the_kernel_is_right_on_average_and_orthogonal_directions_err_less() -> None:
    width, draws = 8, 6_000
    q, k = 0.5 * torch.randn(2, width, dtype=torch.float64)
    exact = float(torch.exp(q @ k / math.sqrt(width)))

    def estimates(directions_NMD: Tensor) -> Tensor:
        x, y = q / width**0.25, k / width**0.25
        return torch.exp(directions_NMD @ (x + y) - (x @ x + y @ y) / 2).mean(1)

    generator = torch.Generator().manual_seed(2)
    orthogonal = estimates(orthogonal_directions(draws * width, width, generator).unflatten(0, (draws, width)))
    independent = estimates(torch.randn(draws, width, width, generator=generator, dtype=torch.float64))
    for found in (orthogonal, independent):
        assert abs(float(found.mean()) - exact) < 5 * float(found.std()) / math.sqrt(draws)
    assert float(orthogonal.var()) < 0.9 * float(independent.var())


def test_directions_are_orthogonal_in_blocks_as_long_as_random_vectors_and_saved() -> None:
    alignment, same, other = (make_alignment("kernel", 4, 4, 2, features=10, seed=seed) for seed in (1, 1, 2))
    saved = alignment.state_dict()["directions"]
    assert saved.shape == (2, 10, 4)
    assert torch.equal(saved, same.state_dict()["directions"])
    assert not torch.isclose(saved, other.state_dict()["directions"]).any()
    assert not torch.isclose(saved[0], saved[1]).any()
    for block in (saved[:, :4], saved[:, 4:8], saved[:, 8:]):
        products = block @ block.mT
        close(products, torch.diag_embed(products.diagonal(dim1=1, dim2=2)), 1e-5)
    long = orthogonal_directions(10_000, 4, torch.Generator().manual_seed(0)).square().sum(1)
    assert float(long.mean()) == pytest.approx(4, abs=5 * math.sqrt(8 / 10_000))  # chi-square: mean D, variance 2 D
    assert float(long.var()) == pytest.approx(8, rel=0.1)


def test_drawing_directions_does_not_touch_other_draws() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    make_alignment("kernel", 4, 4, 2)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("size", [1e-6, 1.0, 30.0, 1000.0])
def test_scores_of_the_kernel_are_numbers_for_vectors_of_any_size(size: float) -> None:
    alignment = make_alignment("kernel", 8, 8, HEADS, features=32)
    q, k = (size * torch.randn(BATCH, HEADS, 3, 8) for _ in range(2))
    q.requires_grad_()
    scores = alignment(q, alignment.prepare(k, k))
    assert scores.isfinite().all()
    assert torch.autograd.grad(scores.sum(), q)[0].isfinite().all()


def positive_features(length: int) -> tuple[Tensor, Tensor, Tensor]:
    q, k = torch.rand(2, BATCH, HEADS, length, 6, dtype=torch.float64)
    return q, k, torch.randn(BATCH, HEADS, length, WIDTH, dtype=torch.float64)


def quadratic(q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None, causal: bool) -> Tensor:
    """The definition in loops; zeros where nothing is seen."""
    y = torch.zeros_like(v)
    for b in range(q.shape[0]):
        for head in range(q.shape[1]):
            for i in range(q.shape[2]):
                seen = [j for j in range(k.shape[2]) if (not causal or j <= i) and (keep is None or bool(keep[b, j]))]
                products = torch.stack([q[b, head, i] @ k[b, head, j] for j in seen]) if seen else torch.zeros(0)
                for j, product in zip(seen, products, strict=True):
                    y[b, head, i] += product / products.sum() * v[b, head, j]
    return y


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
def test_linear_attention_equals_quadratic_attention(masked: bool) -> None:
    q, k, v = positive_features(7)
    keep = torch.rand(BATCH, 7) > 0.4 if masked else None
    close(linear_attention(q, k, v, keep), quadratic(q, k, v, keep, causal=False))
    close(linear_attention(q[:, :, :2], k, v, keep), quadratic(q, k, v, keep, causal=False)[:, :, :2])


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize(("length", "chunk"), [(7, 1), (7, 3), (6, 3), (7, 7), (7, 128), (1, 4)])
def test_causal_linear_attention_equals_quadratic_attention(length: int, chunk: int, masked: bool) -> None:
    q, k, v = positive_features(length)
    keep = torch.rand(BATCH, length) > 0.4 if masked else None
    close(causal_linear_attention(q, k, v, keep, chunk), quadratic(q, k, v, keep, causal=True))


@pytest.mark.parametrize("attention", [linear_attention, causal_linear_attention])
def test_gradients_of_linear_attention_are_those_of_differences(attention: Callable[..., Tensor]) -> None:
    keep = torch.tensor([[True, True, False], [False, True, True]])
    inputs = [x.requires_grad_() for x in positive_features(3)]
    assert torch.autograd.gradcheck(lambda q, k, v: attention(q, k, v, keep), inputs)


@pytest.mark.parametrize("attention", [linear_attention, causal_linear_attention])
def test_linear_attention_over_nothing_is_zero_with_finite_gradients(attention: Callable[..., Tensor]) -> None:
    alignment = make_alignment("kernel", 6, 6, HEADS)
    assert isinstance(alignment, Kernel)
    keep = torch.tensor([[True, True, False, True], [False] * 4])
    q, k, v = (torch.randn(BATCH, HEADS, 4, 6, requires_grad=True) for _ in range(3))
    y = attention(alignment.query_features(q), alignment.key_features(k, keep), v, keep)
    assert (alignment.key_features(k, keep).transpose(1, 2)[~keep] == 0).all()
    assert (y[1] == 0).all()
    for gradient in torch.autograd.grad(y.sum(), (q, k, v)):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("size", [1.0, 4.0])
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_linear_attention_is_what_the_kernel_gives_with_a_softmax(size: float, masked: bool, causal: bool) -> None:
    alignment = made("kernel")
    assert isinstance(alignment, Kernel)
    q, k, v = (size * x for x in drawn("kernel", queries=KEYS))
    keep = torch.tensor([[True] * KEYS, [True] * 3 + [False] * 2]) if masked else None
    if keep is not None:
        k = torch.where(keep[:, None, :, None], k, 1e3)  # padding has no say in how features are scaled
    expected, _ = attend(alignment, softmax, q, alignment.prepare(k, v, keep), causal)
    attention: Callable[..., Tensor] = causal_linear_attention if causal else linear_attention
    close(attention(alignment.query_features(q), alignment.key_features(k, keep), v, keep), expected, 1e-10)


class Largest(TorchDispatchMode):
    """Keeps the size of the largest tensor that is computed."""

    size = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and not any(made is arg for arg in args):
            self.size = max(self.size, made.untyped_storage().nbytes() // made.element_size())
        return made


@pytest.mark.parametrize("attention", [linear_attention, causal_linear_attention])
def test_linear_attention_makes_nothing_of_quadratic_size(attention: Callable[..., Tensor]) -> None:
    length, count, width = 2048, 16, 32
    q, k = torch.rand(2, 1, 1, length, count)
    with Largest() as largest:  # type: ignore[no-untyped-call]
        attention(q, k, torch.randn(1, 1, length, width))
    assert 0 < largest.size <= length * 128  # neither length ** 2 nor length * count * width
