"""The mean of weights: numpy's mean in float64, in the weights' own type."""

import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.models.weights import mean_weights


def models(count: int, dtype: torch.dtype = torch.float32) -> list[dict[str, Tensor]]:
    """Weights of very different sizes, whose sum in float32 would not be the sum in float64."""
    return [
        {"matrix": (torch.randn(5, 7) * 10.0**number).to(dtype), "bias": torch.randn(3).to(dtype)}
        for number in range(-3, count - 3)
    ]


def test_the_mean_is_numpys_mean_in_float64() -> None:
    weights = models(7)
    found = mean_weights(weights)
    assert list(found) == ["matrix", "bias"]
    for name, tensor in found.items():
        expected = np.mean([each[name].numpy().astype(np.float64) for each in weights], axis=0).astype(np.float32)
        assert tensor.dtype == torch.float32
        assert np.array_equal(tensor.numpy(), expected)


def test_the_mean_of_bfloat16_weights_is_rounded_once() -> None:
    weights = models(5, torch.bfloat16)
    found = mean_weights(weights)["matrix"]
    exact = torch.stack([each["matrix"].double() for each in weights]).sum(0) / 5
    assert torch.equal(found, exact.to(torch.bfloat16))


def test_the_mean_of_one_model_is_the_model_and_of_equal_ones_too() -> None:
    (weights,) = models(1)
    for copies in (1, 3):
        found = mean_weights([weights] * copies)
        assert all(torch.equal(found[name], weights[name]) for name in weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_models_stay_as_they_were(dtype: torch.dtype) -> None:
    weights = models(3, dtype)
    before = [{name: tensor.clone() for name, tensor in each.items()} for each in weights]
    mean_weights(weights)["matrix"].zero_()
    for each, old in zip(weights, before, strict=True):
        assert all(torch.equal(each[name], old[name]) for name in old)


def test_one_model_is_in_memory_at_a_time() -> None:
    seen: list[weakref.ref[Tensor]] = []
    alive: list[int] = []

    def one_by_one() -> Iterator[dict[str, Tensor]]:
        for _ in range(4):
            alive.append(sum(reference() is not None for reference in seen))
            tensor = torch.ones(2)
            seen.append(weakref.ref(tensor))
            yield {"x": tensor}

    mean_weights(one_by_one())
    assert alive == [0, 1, 1, 1]  # the one before is still in the loop's hand
