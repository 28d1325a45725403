import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder
from heedful.models.weights import config_of, state_config, weights_from_bytes, weights_to_bytes

WHERE = Path("runs/m30k/model.safetensors")
TINY: dict[str, Any] = {"width": 8, "heads": 2, "layers": 1, "inner": 12}


def model_of(tie: str = "all", seed: int = 1, **options: Any) -> EncoderDecoder:
    torch.manual_seed(seed)
    return build_model(TransformerModel(**(TINY | options), tie=tie), 11, 11)  # type: ignore[arg-type]


def values_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def refusal(model: nn.Module, data: bytes) -> str:
    """The message of the error, after a look that the model is as it was."""
    before = values_of(model)
    with pytest.raises(UserError) as caught:
        weights_from_bytes(model, data, WHERE)
    assert equal(values_of(model), before)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- there and back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_weights_come_back_bit_by_bit(tie: str, positions: str) -> None:
    written, read = model_of(tie, positions=positions), model_of(tie, seed=2, positions=positions)
    assert not equal(values_of(read), values_of(written))
    weights_from_bytes(read, weights_to_bytes(written), WHERE)
    assert equal(values_of(read), values_of(written))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_every_type_of_weights_comes_back(dtype: torch.dtype) -> None:
    written, read = model_of().to(dtype), model_of(seed=2).to(dtype)
    weights_from_bytes(read, weights_to_bytes(written), WHERE)
    assert equal(values_of(read), values_of(written))


def test_numbers_that_are_none_come_back() -> None:
    written, read = nn.Linear(2, 2), nn.Linear(2, 2)
    with torch.no_grad():
        written.bias.copy_(torch.tensor([float("nan"), float("-inf")]))
    weights_from_bytes(read, weights_to_bytes(written), WHERE)
    assert read.bias.isnan().tolist() == [True, False]


@pytest.mark.parametrize(("tie", "matrices"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_a_shared_matrix_is_written_once_and_stays_shared(tie: str, matrices: int) -> None:
    data = weights_to_bytes(model_of(tie))
    assert sum(tuple(tensor.shape) == (11, 8) for tensor in load(data).values()) == matrices
    read = model_of(tie, seed=2)
    weights_from_bytes(read, data, WHERE)
    source, target = read.get_parameter("encoder.embedding.weight"), read.get_parameter("decoder.embedding.weight")
    assert (source is target) == (tie == "all")
    assert (target is read.decoder.output.weight) == (tie != "none")


def test_the_same_weights_are_the_same_bytes() -> None:
    for _ in range(8):  # a file with its metadata in an order of chance would differ soon
        assert weights_to_bytes(model_of()) == weights_to_bytes(model_of())
    assert weights_to_bytes(model_of()) != weights_to_bytes(model_of(seed=2))


def test_tables_that_are_no_weights_are_not_written() -> None:
    assert set(load(weights_to_bytes(model_of()))) == {name for name, _ in model_of().named_parameters()}


def test_weights_without_a_stated_hash_are_read() -> None:
    """Any safetensors file with the right names and shapes is welcome: another tool may have written it."""
    read = model_of()
    weights_from_bytes(read, save(values_of(model_of(seed=2))), WHERE)
    assert equal(values_of(read), values_of(model_of(seed=2)))


# --- damage -----------------------------------------------------------------------------------------------------------

SMALL = nn.Linear(3, 2)
GOOD = weights_to_bytes(SMALL)


@given(place=st.integers(0, len(GOOD) - 1), byte=st.integers(0, 255))
def test_no_changed_byte_changes_a_weight(place: int, byte: int) -> None:
    """One wrong byte is refused, or it stands where it cannot matter (a key of the metadata, a space)."""
    read = nn.Linear(3, 2)
    try:
        weights_from_bytes(read, GOOD[:place] + bytes([byte]) + GOOD[place + 1 :], WHERE)
    except UserError:
        return
    assert equal(values_of(read), values_of(SMALL))


@pytest.mark.parametrize("place", [len(GOOD) - 1, len(GOOD) - 20, len(GOOD) - 32])
def test_a_changed_value_is_refused(place: int) -> None:
    data = GOOD[:place] + bytes([GOOD[place] ^ 1]) + GOOD[place + 1 :]
    assert refusal(nn.Linear(3, 2), data) == (
        f"{WHERE} is damaged (its sha256 is not the stated one): restore it from a copy or train again."
    )


def test_a_changed_type_is_refused() -> None:
    """The same bytes read as integers would be other numbers."""
    assert "its sha256 is not the stated one" in refusal(nn.Linear(3, 2), GOOD.replace(b"F32", b"I32"))


@pytest.mark.parametrize("length", [0, 1, 8, 50, len(GOOD) - 1])
def test_a_file_that_was_cut_off_is_refused(length: int) -> None:
    message = refusal(nn.Linear(3, 2), GOOD[:length])
    assert re.fullmatch(rf"{re.escape(str(WHERE))} is damaged \(.+\): restore it from a copy or train again\.", message)


@pytest.mark.parametrize(
    "data",
    [b"not a model", b"\xff" * 100, b"PK\x03\x04" + bytes(60), GOOD + b"more"],
    ids=["text", "ones", "archive", "longer"],
)
def test_what_is_no_safetensors_file_is_refused(data: bytes) -> None:
    assert refusal(nn.Linear(3, 2), data).startswith(f"{WHERE} is damaged (")


# --- weights of another model -----------------------------------------------------------------------------------------


def test_a_matrix_of_another_shape_is_refused_with_both_shapes() -> None:
    assert refusal(nn.Linear(3, 2), weights_to_bytes(nn.Linear(4, 2))) == (
        f"{WHERE} does not fit its config.json: `weight` is (2, 4) there, but must be (2, 3)."
    )


def test_a_missing_parameter_is_named() -> None:
    assert refusal(nn.Linear(3, 2), weights_to_bytes(nn.Linear(3, 2, bias=False))) == (
        f"{WHERE} does not fit its config.json: `bias` is missing there, but must be (2,)."
    )


def test_a_parameter_too_many_is_named() -> None:
    assert refusal(nn.Linear(3, 2, bias=False), weights_to_bytes(nn.Linear(3, 2))) == (
        f"{WHERE} does not fit its config.json: `bias` is (2,) there, but must be absent."
    )


@pytest.mark.parametrize(
    "other", [{"layers": 2}, {"width": 12}, {"tie": "none"}, {"activation": "swiglu"}, {"norm": "pre"}], ids=str
)
def test_another_models_weights_are_refused(other: dict[str, Any]) -> None:
    assert refusal(model_of(), weights_to_bytes(model_of(**other))).startswith(
        f"{WHERE} does not fit its config.json: `"
    )


def test_nothing_but_tensors_and_text_is_in_the_file() -> None:
    """Inert: the header is JSON, and behind it lie as many bytes as its tensors need."""
    size = int.from_bytes(GOOD[:8], "little")
    header = json.loads(GOOD[8 : 8 + size])
    assert set(header.pop("__metadata__")) == {"sha256"}
    assert max(entry["data_offsets"][1] for entry in header.values()) == len(GOOD) - 8 - size


def test_the_config_that_weights_belong_to_is_in_the_header_and_can_be_changed() -> None:
    model = model_of()
    data = weights_to_bytes(model, "aa")
    assert config_of(data) == "aa"
    assert config_of(weights_to_bytes(model)) is None
    assert state_config(weights_to_bytes(model), "aa") == state_config(weights_to_bytes(model, "bb"), "aa") == data
    for _ in range(8):  # with its metadata in an order of chance it would differ soon
        assert weights_to_bytes(model, "aa") == data
    assert (int.from_bytes(data[:8], "little")) % 8 == 0  # tensors start where a machine likes to read them
    read = model_of(seed=2)
    weights_from_bytes(read, data, WHERE)
    assert equal(values_of(read), values_of(model))


def test_weights_that_are_no_floating_point_numbers_are_refused() -> None:
    whole = {name: value.to(torch.int32) for name, value in values_of(SMALL).items()}
    assert refusal(nn.Linear(3, 2), save(whole)) == (
        f"{WHERE}: `bias` holds int32, but weights are floating-point numbers: restore it from a copy or train again."
    )
