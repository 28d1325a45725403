"""Divergences equal their definitions, written with torch.distributions; values and gradients."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, kl_divergence

import heedful.nn.losses.divergence
from heedful.nn.losses.divergence import (
    class_divergence,
    class_divergence_from,
    output_divergence,
    output_divergence_from,
    presence_divergence,
    presence_divergence_from,
)

ROWS, WIDTH, WORDS = 11, 5, 7
COUNTS = torch.tensor([True] * 8 + [False, True, False])


@pytest.fixture(params=[1, 3, 1000], ids=lambda rows: f"{rows} rows a chunk", autouse=True)
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = dict.fromkeys(("cpu", "cuda"), int(request.param) * WORDS * 4)
    monkeypatch.setattr(heedful.nn.losses.divergence, "_CHUNK_BYTES", sizes)


def symmetric(one: object, other: object) -> Tensor:
    forth, back = kl_divergence(one, other), kl_divergence(other, one)  # type: ignore[arg-type]
    return (forth + back) / 2


def tensors(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def assert_same(found: Callable[[], Tensor], expected: Callable[[], Tensor], leaves: list[Tensor]) -> None:
    """Compare values, and gradients after a factor, as the loss of an update is divided."""
    torch.testing.assert_close(found(), expected(), rtol=1e-12, atol=1e-12)
    ours, theirs = (torch.autograd.grad(3 * loss(), leaves) for loss in (found, expected))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
def test_the_divergence_of_two_passes_is_the_mean_of_both_directions(biased: bool) -> None:
    x, y, weight, *rest = tensors((ROWS, WIDTH), (ROWS, WIDTH), (WORDS, WIDTH), *([(WORDS,)] if biased else []))
    bias = rest[0] if biased else None

    def expected() -> Tensor:
        one, other = (Categorical(logits=torch.nn.functional.linear(z, weight, bias)) for z in (x, y))
        return (symmetric(one, other) * COUNTS).sum()

    assert_same(lambda: output_divergence(x, y, weight, bias, COUNTS), expected, [x, y, weight, *rest])


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_the_divergence_from_a_teacher_is_that_of_both_at_a_temperature(temperature: float) -> None:
    y, weight, bias = tensors((ROWS, WIDTH), (WORDS, WIDTH), (WORDS,))
    teacher = tensors((ROWS, WIDTH + 2), (WORDS, WIDTH + 2), (WORDS,))

    def expected() -> Tensor:
        with torch.no_grad():
            taught = Categorical(logits=torch.nn.functional.linear(*teacher) / temperature)
        student = Categorical(logits=torch.nn.functional.linear(y, weight, bias) / temperature)
        return temperature**2 * (kl_divergence(taught, student) * COUNTS).sum()

    def found() -> Tensor:
        return output_divergence_from((teacher[0], teacher[1], teacher[2]), y, weight, bias, COUNTS, temperature)

    assert_same(found, expected, [y, weight, bias])


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_divergences_of_classes_and_of_their_presence(temperature: float) -> None:
    x, y = tensors((ROWS, WORDS), (ROWS, WORDS))
    counts_BC = COUNTS.unsqueeze(1).expand(-1, WORDS)
    for kind, between, of, counts in (
        (Categorical, class_divergence, class_divergence_from, COUNTS),
        (Bernoulli, presence_divergence, presence_divergence_from, counts_BC),
    ):
        assert_same(
            lambda between=between, counts=counts: between(x, y, counts),  # type: ignore[misc]
            lambda kind=kind, counts=counts: (symmetric(kind(logits=x), kind(logits=y)) * counts).sum(),  # type: ignore[misc]
            [x, y],
        )
        taught = kind(logits=x.detach() / temperature)
        assert_same(
            lambda of=of, counts=counts: of(x, y, counts, temperature),  # type: ignore[misc]
            lambda kind=kind, taught=taught, counts=counts: (  # type: ignore[misc]
                temperature**2 * (kl_divergence(taught, kind(logits=y / temperature)) * counts).sum()
            ),
            [y],
        )


def test_nothing_is_differentiated_where_no_gradient_is_wanted() -> None:
    x, y, weight = tensors((ROWS, WIDTH), (ROWS, WIDTH), (WORDS, WIDTH))
    with torch.no_grad():
        assert not output_divergence(x, y, weight, None, COUNTS).requires_grad
        assert float(output_divergence(x, x, weight, None, COUNTS)) == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_states_of_less_precision_are_compared_in_float32(dtype: torch.dtype) -> None:
    x, y, weight = (t.detach().to(dtype).requires_grad_() for t in tensors((ROWS, 8), (ROWS, 8), (WORDS, 8)))
    found = output_divergence(x, y, weight.float(), None, COUNTS)
    assert found.dtype == torch.float32
    found.backward()
    exact = output_divergence(x.detach().double(), y.detach().double(), weight.detach().double(), None, COUNTS)
    torch.testing.assert_close(found.double(), exact, rtol=0.05, atol=0.05)
    assert x.grad is not None
    assert x.grad.dtype == dtype
