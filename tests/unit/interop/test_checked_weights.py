"""Tensors that are taken by name."""

from pathlib import Path

import pytest
import torch
from tests.shared.refusals import refuses
from torch import Tensor

from heedful.interop.transformers.model_folder import CheckedWeights

WHERE = Path("x/model.safetensors")


def some() -> dict[str, Tensor]:
    return {"a": torch.ones(2, 3, dtype=torch.float16), "b": torch.zeros(4), "c": torch.zeros(4)}


def test_tensors_are_taken_once_and_as_float32() -> None:
    weights = CheckedWeights(WHERE, some())
    assert torch.equal(weights.take("a", 2, 3), torch.ones(2, 3))
    assert torch.equal(weights.take_one(["b", "c"], 4), torch.zeros(4))
    weights.refuse_rest()
    with refuses("...lacks `a`..."):
        weights.take("a", 2, 3)


def test_any_of_several_names_will_do() -> None:
    assert CheckedWeights(WHERE, {"b": torch.full((4,), 7.0)}).take_one(["a", "b"], 4).tolist() == [7.0] * 4


def test_a_default_stands_for_what_is_missing() -> None:
    weights, default = CheckedWeights(WHERE, {"a": torch.ones(4)}), torch.full((4,), 2.0)
    assert torch.equal(weights.take_or(default, "b"), default)
    assert torch.equal(weights.take_or(default, "a"), torch.ones(4))
    weights.refuse_rest()


def test_a_missing_tensor_is_refused() -> None:
    with refuses("x/model.safetensors lacks `d`, which x/config.json requires: copy the model again."):
        CheckedWeights(WHERE, some()).take_one(["d", "e"], 4)


@pytest.mark.parametrize("optional", [False, True])
def test_another_shape_is_refused(optional: bool) -> None:
    weights = CheckedWeights(WHERE, some())
    with refuses("x/model.safetensors: `a` has shape (2, 3), but x/config.json requires (3, 2)."):
        weights.take_or(torch.zeros(3, 2), "a") if optional else weights.take("a", 3, 2)


def test_values_that_are_not_finite_are_refused() -> None:
    with refuses("x/model.safetensors: `a` has values that are not finite: copy the model again."):
        CheckedWeights(WHERE, {"a": torch.tensor([1.0, float("nan")])}).take("a", 2)


def test_what_nobody_took_is_refused() -> None:
    weights = CheckedWeights(WHERE, some())
    weights.take("b", 4)
    with refuses("x/model.safetensors has `a`, which does not belong to the model that x/config.json describes."):
        weights.refuse_rest()
