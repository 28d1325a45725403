"""Matrices that are stored in int8: read as floats, and one line for everything that can be wrong with them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save
from tests.shared.refusals import Refusal, each
from torch import Tensor, nn

from heedful.models.weights import config_of, weights_from_bytes, weights_to_bytes
from heedful.native.int8 import quantize

WHERE = Path("model.safetensors")
WRITTEN = nn.Linear(3, 2)


def stored(change: Callable[[dict[str, Tensor]], object] = lambda tensors: None) -> bytes:
    """Weights in int8 that state no hash, and are changed."""
    tensors = load(weights_to_bytes(WRITTEN, in_int8={"weight": quantize(WRITTEN.weight)}))
    change(tensors)
    return save(tensors)


def read(data: bytes) -> nn.Linear:
    model = nn.Linear(3, 2)
    weights_from_bytes(model, data, WHERE)
    return model


def test_matrices_in_int8_are_read_as_the_floats_that_they_stand_for() -> None:
    q_NK, scale_N = quantize(WRITTEN.weight)
    data = weights_to_bytes(WRITTEN, "aa", {"weight": (q_NK, scale_N)})
    tensors = load(data)
    assert {name: tensor.dtype for name, tensor in tensors.items()} == {
        "weight": torch.int8, "weight.scale": torch.float32, "bias": torch.float32
    }  # fmt: skip
    found = read(data)
    assert torch.equal(found.weight, q_NK.float() * scale_N.unsqueeze(1))
    assert torch.equal(found.bias, WRITTEN.bias)
    assert found.weight.dtype == torch.float32
    assert config_of(data) == "aa"


def test_what_is_read_is_stored_again_as_the_same_bytes() -> None:
    again = read(stored())
    assert load(weights_to_bytes(again, in_int8={"weight": quantize(again.weight)})).keys() == load(stored()).keys()
    assert save(load(weights_to_bytes(again, in_int8={"weight": quantize(again.weight)}))) == stored()


def test_a_matrix_of_zeros_and_empty_rows_come_back() -> None:
    zeros = nn.Linear(3, 2, bias=False)
    nn.init.zeros_(zeros.weight)
    model = nn.Linear(3, 2, bias=False)
    weights_from_bytes(model, weights_to_bytes(zeros, in_int8={"weight": quantize(zeros.weight)}), WHERE)
    assert torch.equal(model.weight, zeros.weight)


REFUSED = [
    Refusal(
        "whole numbers without scales",
        lambda: read(stored(lambda tensors: tensors.pop("weight.scale"))),
        "model.safetensors: `weight` holds int8, but weights are...",
    ),
    Refusal(
        "scales of what is not in int8",
        lambda: read(stored(lambda tensors: tensors.update(weight=torch.ones(2, 3)))),
        "model.safetensors does not fit its config.json: `weight.scale` is (2,) there, but must be absent.",
    ),
    Refusal(
        "too few scales",
        lambda: read(stored(lambda tensors: tensors.update({"weight.scale": torch.ones(1)}))),
        "model.safetensors: `weight` in int8 is (2, 3) and its scales are (1,), but it must be a matrix with one scale "
        "per row: restore it from a copy or train again.",
    ),
    Refusal(
        "scales that would be spread over a matrix",
        lambda: read(stored(lambda tensors: tensors.update({"weight.scale": torch.ones(2, 3)}))),
        "model.safetensors: `weight` in int8 is (2, 3) and its scales are (2, 3), but...",
    ),
    Refusal(
        "a bias in int8",
        lambda: read(
            stored(
                lambda tensors: tensors.update({"bias": torch.ones(2, dtype=torch.int8), "bias.scale": torch.ones(2)})
            )
        ),
        "model.safetensors: `bias` in int8 is (2,) and its scales are (2,), but...",
    ),
    Refusal(
        "a matrix of another shape",
        lambda: read(
            stored(
                lambda tensors: tensors.update(
                    {"weight": torch.ones(9, 3, dtype=torch.int8), "weight.scale": torch.ones(9)}
                )
            )
        ),
        "model.safetensors does not fit its config.json: `weight` is (9, 3) there, but must be (2, 3).",
    ),
    Refusal(
        "scales of another type",
        lambda: read(stored(lambda tensors: tensors.update({"weight.scale": torch.ones(2, dtype=torch.float16)}))),
        "model.safetensors: `weight.scale` holds float16, but scales of int8 are float32: restore it from a copy or "
        "train again.",
    ),
    *(
        Refusal(
            f"a scale of {value}",
            lambda value=value: read(
                stored(lambda tensors: tensors.update({"weight.scale": torch.tensor([1.0, value])}))
            ),
            "model.safetensors: `weight.scale` has negative...",
        )
        for value in (float("nan"), float("-inf"), -1.0)
    ),
]


@each(REFUSED)
def test_what_is_wrong_with_matrices_in_int8_is_said_in_one_line(refusal: Refusal) -> None:
    refusal.check()


def test_a_scale_must_be_a_number_that_is_not_negative() -> None:
    Refusal(
        "an infinite scale",
        lambda: read(stored(lambda tensors: tensors.update({"weight.scale": torch.full((2,), float("inf"))}))),
        "model.safetensors: `weight.scale` has negative or infinite scales or values that are not numbers: restore it "
        "from a copy or train again.",
    ).check()


@pytest.mark.parametrize("place", [-1, -5, -20])
def test_a_changed_byte_of_int8_or_of_scales_is_refused(place: int) -> None:
    data = bytearray(weights_to_bytes(WRITTEN, in_int8={"weight": quantize(WRITTEN.weight)}))
    data[place] ^= 1
    Refusal("a changed byte", lambda: read(bytes(data)), "model.safetensors is damaged (its sha256 is not...").check()
